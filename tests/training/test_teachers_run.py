"""A run with teachers: what is held out, what is kept, and what is said at the end."""

import re
import shlex
from collections.abc import Sequence
from html import escape
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isotune.training.teachers
from isotune.bundled import BUNDLED_MODEL
from isotune.data.held_out import is_held_out
from isotune.data.kept_vectors import write_vectors
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Normalize
from isotune.errors import InputError
from isotune.evaluation import evaluate, load_tasks
from isotune.evaluation.run_results import (
    LIKE_TEACHERS,
    TAUGHT,
    RunEvaluation,
    Verdict,
)
from isotune.report.verdict import gain_sentence, outcome_sentences
from isotune.training import Result
from isotune.training.recorder import Recorder
from isotune.training.taught import tell_time_of_teachers
from isotune.training.teachers import KeptTeacher
from tests.training.conftest import Train, assert_same_end, metrics, stop_and_resume, weights

OPTIONS: dict[str, Any] = {
    "method": "distil",
    "teachers": [BUNDLED_MODEL],
    "dev": "none",
    "batch_size": 30,
}


@pytest.fixture
def texts(sentences: list[str]) -> list[str]:
    """Enough texts that some of them are held out."""
    pairs = islice(product(sentences[:20], sentences[20:]), 400)
    return [" ".join(texts) for texts in pairs]


@pytest.fixture
def long_text(texts: list[str], text: Path) -> Path:
    text.write_text("\n".join(texts) + "\n")
    return text


def log(run: Path) -> str:
    return (run / "train.log").read_text("utf-8")


def suggested(run: Result) -> list[list[str]]:
    """The words of each command that the log of a run suggests, without isotune."""
    return [shlex.split(line) for line in re.findall(r"  isotune (.*)", log(run.folder))]


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The texts that teachers encode to train by them."""
    calls: list[list[str]] = []
    encode = isotune.training.teachers._encoded

    def watched(teacher: Encoder, texts: Sequence[str], recorder: Any) -> Any:
        calls.append(list(texts))
        yield from encode(teacher, texts, recorder)

    monkeypatch.setattr(isotune.training.teachers, "_encoded", watched)
    return calls


def test_held_out_sentences_are_not_trained_on(
    train: Train, long_text: Path, texts: list[str], encoded: list[list[str]]
) -> None:
    run = train(**OPTIONS, steps=20)
    kept = [text for text in texts if not is_held_out(text)]
    assert len(texts) - len(kept) == run.evaluation.agreement.sentences
    (taught,) = encoded
    # Rows that fill no batch of an epoch may be in no step.
    assert 300 < len(taught) <= len(kept)
    assert set(kept).issuperset(taught)
    assert f"{len(kept)} rows" in log(run.folder)


def test_vectors_of_teachers_are_computed_once(
    train: Train, long_text: Path, encoded: list[list[str]]
) -> None:
    first = train("first", **OPTIONS)
    second = train("second", **OPTIONS)
    assert len(encoded) == 1
    assert_same_end(first.folder, second.folder)
    (file,) = (long_text.parent / ".isotune").glob("vectors-*.npy")
    assert f"are kept in {file}" in log(first.folder)
    assert f"are read from {file}" in log(second.folder)
    # Another teacher, or another text, has a file of its own.
    train("third", **{**OPTIONS, "teachers": [str(first.folder / "encoder")], "steps": 1})
    long_text.write_text("\n".join(long_text.read_text().splitlines()[1:]) + "\n")
    train("fourth", **{**OPTIONS, "steps": 1})
    assert len(encoded) == 3


def test_a_resumed_run_is_the_same(train: Train, long_text: Path, encoded: list[list[str]]) -> None:
    whole = train("whole", **OPTIONS)
    resumed = stop_and_resume(train, 7, **OPTIONS)
    assert_same_end(whole.folder, resumed.folder)
    assert len(encoded) == 1
    agreement = resumed.evaluation.agreement
    assert agreement.after == whole.evaluation.agreement.after


def test_damaged_vectors_are_refused(train: Train, long_text: Path) -> None:
    train("first", **OPTIONS)
    (file,) = (long_text.parent / ".isotune").glob("vectors-*.npy")
    content = bytearray(file.read_bytes())
    content[500] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match="vectors in it are damaged"):
        train("second", **OPTIONS)


def test_rows_from_python_leave_no_file(train: Train, texts: list[str], tmp_path: Path) -> None:
    before = set(tmp_path.rglob(".isotune"))
    run = train(**OPTIONS, sources=None, rows=texts, steps=1)
    assert set(tmp_path.rglob(".isotune")) == before
    assert run.evaluation.agreement is not None


def test_teachers_encode_the_texts_of_tasks_once_for_all_runs(
    train: Train, long_text: Path, kept_vectors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**OPTIONS, "steps": 1, "tasks": ["stsb-open"]}
    first = train("first", **options)
    who = f"the teacher {BUNDLED_MODEL}"
    assert f"tasks: at the end, {who} needs about 0:00:" in log(first.folder)
    assert len(list(kept_vectors.iterdir())) == 1
    # Another text has no vectors of the training.
    long_text.write_text("\n".join(reversed(long_text.read_text().splitlines())) + "\n")
    monkeypatch.setattr(isotune.training.teachers, "write_vectors", write_beside)
    second = train("second", **options)
    assert f"tasks: {who} has no new text of theirs to encode" in log(second.folder)
    before = first.evaluation.beside_teachers.evaluation.scores()
    assert second.evaluation.beside_teachers.evaluation.scores() == before


def test_damaged_vectors_of_tasks_are_computed_again(tmp_path: Path, kept_vectors: Path) -> None:
    texts = ["one", "another"]
    with Recorder(tmp_path, quiet=True) as recorder:
        teacher = KeptTeacher(Encoder.load(BUNDLED_MODEL), recorder)
        vectors = teacher.encode_query(texts).copy()
        (file,) = kept_vectors.iterdir()
        whole = file.read_bytes()
        for damaged in (whole[:-9], whole[:-9] + bytes(9), b""):
            file.write_bytes(damaged)
            np.testing.assert_array_equal(teacher.encode_query(texts), vectors)
            assert file.read_bytes() == whole


def test_the_place_and_the_size_of_the_vectors_of_tasks_are_told(
    tmp_path: Path, kept_vectors: Path
) -> None:
    pairs = tmp_path / "pairs.tsv"
    rows = [f"text {number}\tanother {number}\t{number % 6}\n" for number in range(2000)]
    pairs.write_text("sentence1\tsentence2\tscore\n" + "".join(rows))
    with Recorder(tmp_path, quiet=True) as recorder:
        tell_time_of_teachers([str(BUNDLED_MODEL)], load_tasks([str(pairs)]), recorder)
    features = Encoder.load(BUNDLED_MODEL).dimension
    size = f"{4000 * features * 4 / 1e6:.1f} MB"
    assert f"their vectors, {size}, are kept in {kept_vectors} for other runs" in log(tmp_path)


def write_beside(path: Path, *content: Any) -> None:
    """Writes vectors, but none of a task."""
    assert path.parent.name == ".isotune"
    write_vectors(path, *content)


def test_a_run_needs_no_place_for_the_vectors_of_tasks(
    train: Train, long_text: Path, kept_vectors: Path
) -> None:
    kept_vectors.write_text("a file, where a folder is needed")
    run = train(**OPTIONS, steps=1)
    assert run.evaluation.beside_teachers is not None
    assert "the vectors of the teacher are not kept" in log(run.folder)


def test_too_few_held_out_sentences_are_not_compared(train: Train) -> None:
    run = train(**OPTIONS, steps=1)
    assert run.evaluation.agreement is None
    assert "agreement with the teachers is not measured" in log(run.folder)


def test_the_run_says_how_much_the_encoder_agrees(train: Train, long_text: Path) -> None:
    # General pairs don't judge another text.
    run = train(**OPTIONS, steps=60, tasks=["stsb-open"])
    agreement = run.evaluation.agreement
    assert 0 < agreement.low < agreement.after - agreement.before < agreement.high
    gain = run.evaluation.headline
    assert gain.kind == "agreement"
    assert gain.words in log(run.folder)
    page = (run.folder / "report.html").read_text("utf-8")
    told = (gain_sentence(gain), agreement.teachers.words, agreement.student.words)
    for words in (*told, "Pairs of held-out sentences"):
        assert escape(words) in page
    assert RunEvaluation.read(run.folder / "evaluation.json") == run.evaluation
    # The start is a language model, which nobody would use, so the student stands beside its
    # teacher alone.
    assert (run.verdict.word, run.verdict.why) == ("NEW", LIKE_TEACHERS)
    near, *_ = run.evaluation.nearness
    assert near.teachers == evaluate(BUNDLED_MODEL, near.score).scores()[near.score]
    assert f"{near.words(near.score)}\n" in log(run.folder)
    assert run.evaluation.beside_words() in run.evaluation.decision
    (sentence,) = outcome_sentences(run.evaluation)
    assert escape(sentence) in page
    student = str(run.folder / "encoder")
    commands = suggested(run)
    (label,) = [words for words in commands if words[0] == "label"]
    assert label[1] == str(run.folder)
    (first, *_) = [words for words in commands if words[0] == "evaluate"]
    assert BUNDLED_MODEL in first
    assert student in first
    assert {words[1] for words in commands if words[0] in ("index", "serve")} == {student}


@pytest.mark.parametrize("teachers", [{}, {"the teacher": 0.9}])
def test_a_student_that_finds_less_than_words_and_its_teacher_is_suggested_for_no_search(
    train: Train,
    long_text: Path,
    texts: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    teachers: dict[str, float],
) -> None:
    monkeypatch.setattr(RunEvaluation, "_better_teachers", lambda *_: teachers)
    verdict = Verdict(word="NEW", why="the gain is more than chance", but="words are better")
    monkeypatch.setattr(RunEvaluation, "verdict", property(lambda self: verdict))
    task = tmp_path / "search.tsv"
    lines = ["query\tanswer"]
    for number, text in enumerate(texts):
        lines.append(f"{' '.join(text.split()[:5])} {number}\t{text} {number}")
    task.write_text("\n".join(lines) + "\n")
    run = train(**OPTIONS, steps=1, tasks=[f"retrieval:{task},query,answer"])
    (short,) = run.evaluation.shortfalls
    assert list(short.rivals) == ["BM25"]
    assert short.remedy.startswith("search by words beside the vectors (--hybrid)")
    assert short.remedy.endswith("or use the teacher") is bool(teachers)
    assert ("so these commands search by the teacher" in log(run.folder)) is bool(teachers)
    searched = {words[1] for words in suggested(run) if words[0] in ("index", "serve")}
    expected = str(run.folder / "encoder")
    if teachers:
        expected = BUNDLED_MODEL
    assert searched == {expected}
    assert "<strong>Warning.</strong> Use the new encoder" in run.report.read_text("utf-8")


def test_a_finished_start_may_be_kept(
    train: Train, long_text: Path, tiny_model: Path, tmp_path: Path
) -> None:
    """Agreement decides nothing where the start is an encoder: the teachers may be wrong."""
    Encoder.load(tiny_model).save(tmp_path / "start")
    run = train(**OPTIONS, model=str(tmp_path / "start"), steps=60, tasks=["stsb-open"])
    assert run.evaluation.agreement.low > 0
    assert (run.verdict.word, run.verdict.why) == ("CAN'T TELL", TAUGHT)
    (first, *_) = [words for words in suggested(run) if words[0] == "evaluate"]
    assert {BUNDLED_MODEL, str(tmp_path / "start")} < set(first)


def test_a_scaling_to_length_1_stays(train: Train, tiny_model: Path, tmp_path: Path) -> None:
    start = Encoder.load(tiny_model)
    start.heads.append(Normalize())
    start.save(tmp_path / "start")
    run = train(**OPTIONS, model=str(tmp_path / "start"), steps=1)
    (head,) = run.encoder.heads
    assert isinstance(head, Normalize)


@pytest.mark.parametrize(("teachers", "encoders"), [([], 2), ([BUNDLED_MODEL], 3)])
def test_the_progress_of_the_last_evaluation_is_complete_at_its_end(
    train: Train,
    long_text: Path,
    monkeypatch: pytest.MonkeyPatch,
    teachers: list[str],
    encoders: int,
) -> None:
    bars: list[tuple[str, int]] = []
    advanced: list[int] = []

    def start(_: Recorder, description: str, done: int, total: int) -> None:
        bars.append((description, total))
        advanced.clear()

    def advance(_: Recorder, count: int = 1) -> None:
        advanced.append(count)

    monkeypatch.setattr(Recorder, "start", start)
    monkeypatch.setattr(Recorder, "advance", advance)
    train(**{**OPTIONS, "teachers": teachers}, steps=1)
    assert bars[-1] == ("evaluation", encoders)
    assert sum(advanced) == encoders


def test_a_run_without_teachers_holds_nothing_out(train: Train, long_text: Path) -> None:
    run = train(**{**OPTIONS, "teachers": []}, steps=1)
    assert "400 rows" in log(run.folder)
    assert "held out" not in log(run.folder)
    assert run.evaluation.agreement is None
    assert not (long_text.parent / ".isotune").exists()
    assert metrics(run.folder, "train")
    assert weights(run.folder)

"""The commands that the end of a run suggests agree with its verdict."""

import io
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import pytest

from isotune.cli import main
from isotune.evaluation import evaluation_of, load_tasks, resampled_with_words
from isotune.evaluation.results import Difference
from isotune.evaluation.run_results import UNJUDGED, RunEvaluation, Verdict, WithWords
from isotune.recipes import read_recipe
from isotune.training import Result
from tests.training.conftest import Train

NAMES_ENCODER = ("index", "serve", "encode", "search")


def hints(run: Path) -> list[list[str]]:
    """The words of each command that the log of a run suggests, without isotune."""
    log = (run / "train.log").read_text("utf-8")
    return [shlex.split(line) for line in re.findall(r"  isotune (.*)", log)]


def with_verdict(word: str, monkeypatch: pytest.MonkeyPatch, why: str = "because") -> None:
    """Lets all runs end with this verdict."""
    verdict = Verdict(word=word, why=why)
    monkeypatch.setattr(RunEvaluation, "verdict", property(lambda self: verdict))


def encoders(commands: Sequence[Sequence[str]]) -> set[str]:
    """The encoders that the commands use."""
    return {words[1] for words in commands if words[0] in ("index", "serve")}


@pytest.mark.parametrize("word", ["NEW", "KEEP", "CAN'T TELL"])
@pytest.mark.parametrize("pooling", [{}, {"layers": (-2, -1)}])
def test_commands_name_the_encoder_that_the_verdict_advises(
    word: str,
    pooling: dict[str, object],
    train: Train,
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_verdict(word, monkeypatch)
    run = train(steps=1, eval_every=1, dev="none", **pooling)
    advised = run.folder / "encoder" if word == "NEW" else tiny_model
    assert encoders(hints(run.folder)) == {str(advised)}
    log = (run.folder / "train.log").read_text("utf-8")
    differs = bool(pooling) and word != "NEW"
    assert ("don't pool the start as the run did" in log) is differs


def test_no_command_offers_the_new_encoder_after_keep(
    train: Train, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the bundled model is compared with another, and where no step was better."""
    still = train("still", learning_rate=1e-12, model_dropout=0.0)
    assert still.verdict.word == "KEEP"
    with_verdict("KEEP", monkeypatch)
    bundled = train("bundled", model=None, steps=1)
    for run, start in ((still, str(tiny_model)), (bundled, "bert-tiny")):
        commands = hints(run.folder)
        assert commands
        assert not any(str(run.folder / "encoder") in words for words in commands)
        assert encoders(commands) == {start}


def test_an_encoder_of_labels_is_offered_for_no_search(
    train: Train, sentences: list[str], tmp_path: Path
) -> None:
    rows = [f"{sentence}\t{len(sentence) % 2}\n" for sentence in sentences]
    path = tmp_path / "labelled.tsv"
    path.write_text("sentence\tlabel\n" + "".join(rows))
    run = train(
        sources=str(path),
        method="finetune-sentence",
        dev_data=[str(path)],
        classes=["0", "1"],
        steps=1,
    )
    assert not [words for words in hints(run.folder) if words[0] in NAMES_ENCODER]


def faq(path: Path, sentences: Sequence[str], answers: int) -> Path:
    """Thirty questions with so many different answers."""
    lines = ["question\tanswer\turl"]
    for number, question in enumerate(sentences[:30]):
        lines.append(f"{question}\t{sentences[30 + number % answers]}\tu{number}")
    path.write_text("\n".join(lines) + "\n")
    return path


def pairs_run(train: Train, path: Path) -> Result:
    return train(
        sources=str(path), method="pairs", pairs=("question", "answer"), dev="none", steps=1
    )


@pytest.mark.parametrize("answers", [30, 7])
def test_the_index_of_a_run_on_pairs_has_each_answer_once(
    answers: int,
    train: Train,
    sentences: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = pairs_run(train, faq(tmp_path / "faq.tsv", sentences, answers))
    (index,) = [words for words in hints(run.folder) if words[0] == "index"]
    assert "sentence=answer" in index
    assert (run.folder / "answers.jsonl").exists() is (answers < 30)
    capsys.readouterr()
    assert main(index) == 0
    assert f"{answers} rows; {answers} added" in capsys.readouterr().out
    assert main(["rows", f"{run.folder}-index", "-k", "100"]) == 0
    # The other columns of an answer's first row stay.
    assert re.findall(r"u\d+", capsys.readouterr().out) == [f"u{i}" for i in range(answers)]


def test_words_are_scored_beside_the_vectors_of_start_and_kept_encoder(
    train: Train, sentences: list[str], tmp_path: Path
) -> None:
    path = faq(tmp_path / "faq.tsv", sentences, 30)
    run = train(
        sources=str(path),
        method="pairs",
        pairs=("question", "answer"),
        test_share=0.3,
        dev="none",
        tasks=None,
        steps=2,
    )
    assert run.evaluation is not None
    assert len(run.evaluation.words_before) == 1
    (kept,) = run.evaluation.words_after
    task = f"retrieval:{run.folder / 'set-apart.tsv'},question,answer,among={path}"
    alone, joined = resampled_with_words(load_tasks(task), run.encoder, "kept")
    assert kept.score == joined.scores[task]
    assert kept.gain.difference == joined.scores[task] - alone.scores[task]
    log = (run.folder / "train.log").read_text("utf-8")
    assert f"with words beside the vectors: {100 * run.evaluation.words_before[0].score:.2f}" in log


@pytest.mark.parametrize("word", ["NEW", "KEEP"])
@pytest.mark.parametrize(
    ("lows", "highs"), [([0.1], [0.2]), ([-0.1], [0.2]), ([0.1, -0.2], [0.2, -0.1])]
)
def test_words_pay_if_they_find_more_beside_the_advised_encoder(
    word: str, lows: list[float], highs: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_verdict(word, monkeypatch)
    found = []
    for low, high in zip(lows, highs, strict=True):
        gain = Difference(
            encoder="e, with words", against="e", score="t", difference=low, low=low, high=high
        )
        found.append(WithWords(score=0.5, gain=gain))
    advised = "words_after" if word == "NEW" else "words_before"
    evaluation = evaluation_of([], "e")
    run = RunEvaluation(before=evaluation, after=evaluation, selected_step=1, **{advised: found})
    assert len(run.words_that_pay) == (lows == [0.1])
    other = RunEvaluation(before=evaluation, after=evaluation, selected_step=1)
    assert other.words_that_pay == []


@pytest.mark.parametrize("pays", [True, False])
def test_the_search_command_joins_words_where_they_pay(
    pays: bool,
    train: Train,
    sentences: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gain = Difference(
        encoder="e, with words", against="e", score="t", difference=0.1, low=0.05, high=0.2
    )
    found = [WithWords(score=0.5, gain=gain)] if pays else []
    monkeypatch.setattr(RunEvaluation, "words_that_pay", property(lambda self: found))
    run = pairs_run(train, faq(tmp_path / "faq.tsv", sentences, 30))
    (search,) = [words for words in hints(run.folder) if words[0] == "search"]
    assert ("--hybrid" in search) is pays
    log = (run.folder / "train.log").read_text("utf-8")
    told = (
        "words beside the vectors find more: t (nDCG@10) 40.00 -> 50.00 (+5.00 to +20.00, better)"
    )
    assert (told in log) is pays


def test_a_text_that_can_not_be_read_again_is_suggested_as_it_is(
    train: Train, sentences: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = faq(tmp_path / "faq.tsv", sentences, 7)

    def gone(*_: object) -> None:
        raise OSError("gone")

    monkeypatch.setattr("isotune.training.what_next.read_records", gone)
    run = pairs_run(train, path)
    (index,) = [words for words in hints(run.folder) if words[0] == "index"]
    assert str(path) in index


def test_before_labels_are_asked_for_the_log_says_what_the_recipe_gained(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_verdict("CAN'T TELL", monkeypatch, UNJUDGED)
    run = train(method=None, recipe="adapt", steps=1, eval_every=1, dev=None)
    gained = read_recipe("adapt")["gained"]
    log = (run.folder / "train.log").read_text("utf-8")
    assert f"what runs of this recipe gained: {gained}\n" in log


def test_the_gains_of_adapt_are_those_of_the_results() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "results.md").read_text("utf-8")
    table = page.partition("| domain | pairs | all-minilm: steps kept")[2].partition("\n\n")[0]
    rows = [line.split("|") for line in table.splitlines() if re.search(r"\| [\d,]+ \|", line)]
    assert len(rows) == 17
    for name, column in (("all-MiniLM", 4), ("all-mpnet", 8)):
        changes = [float(row[column]) for row in rows]
        words = f"{name} {min(changes):+.1f} to {max(changes):+.1f}"
        gained = read_recipe("adapt")["gained"]
        assert words in gained.replace(" points", "")
        assert f"(median {median(changes):+.1f})" in gained.partition(name)[2]
        assert round(median(changes), 1) == read_recipe("adapt")["usual_gain"]


def test_the_gains_by_a_teacher_are_those_of_the_page_of_methods() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "methods.md").read_text("utf-8")
    table = page.partition("| domain | start | teacher | `adapt-distil`")[2].partition("| **mean")[
        0
    ]
    rows = [line.split("|") for line in table.splitlines()[2:]]
    assert len(rows) == 7
    recipe = read_recipe("adapt-distil")
    gained = recipe["gained"]
    changes = [float(row[4].strip("* ")) for row in rows]
    usual = median(changes)
    assert f"{min(changes):+.1f} to {max(changes):+.1f} points (median {usual:+.1f})" in gained
    assert recipe["usual_gain"] == round(usual, 1)
    of_adapt = [float(row[7].strip("* ")) for row in rows]
    usual = median(of_adapt)
    assert f"{min(of_adapt):.1f} to {max(of_adapt):+.1f} (median {usual:+.1f})" in gained


def test_pairs_that_the_user_labels_compare_both_encoders(
    train: Train,
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with_verdict("CAN'T TELL", monkeypatch, UNJUDGED)
    run = train(steps=1, dev="none")
    label, evaluate, *_ = hints(run.folder)
    log = (run.folder / "train.log").read_text("utf-8")
    assert "scored pairs that tell these encoders apart (Spearman x 100): about " in log
    both = [str(tiny_model), str(run.folder / "encoder")]
    assert label == ["label", str(run.folder), "--out", f"{run.folder}-pairs.tsv"]
    assert evaluate[1:3] == both
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join("0123451q")))
    assert main(label) == 0
    assert main(evaluate) == 0
    assert capsys.readouterr().out.count(" pairs scored") == 8

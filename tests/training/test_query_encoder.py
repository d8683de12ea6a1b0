"""A small encoder that learns the vectors of another one, and can ask in its index."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

from isotune.bundled import BUNDLED_MODEL
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense, Normalize
from isotune.errors import InputError
from isotune.evaluation import evaluate, load_tasks
from isotune.evaluation.results import Cost
from isotune.evaluation.retrieval import DEPTH
from isotune.evaluation.run_results import Agreement, DevGain, RunEvaluation
from isotune.methods.linear_map import RIDGE, linear_map
from isotune.report.stages import NEXT
from isotune.report.verdict import gain_sentence, gain_title, open_questions
from isotune.training import Result
from tests.training.conftest import Train, assert_same_end, stop_and_resume

COST = Cost(weights=3, sentences_per_second=2.0)

OPTIONS = {
    "method": "distil",
    "match": "vectors",
    "teachers": [str(BUNDLED_MODEL)],
    "dev": "none",
    "batch_size": 30,
    "steps": 40,
    "learning_rate": 1e-2,
}


def test_the_vectors_come_near_those_of_the_teacher(train: Train, sentences: list[str]) -> None:
    teacher = Encoder.load(BUNDLED_MODEL)
    theirs = teacher.encode(sentences, normalize=True)
    begun = train("begun", **{**OPTIONS, "steps": 1}).encoder
    run = train(**OPTIONS)
    assert "collapsing" not in (run.folder / "train.log").read_text()
    learned = Encoder.load(run.folder / "encoder")
    assert [type(head) for head in learned.heads] == [Dense, Normalize]
    before = (begun.encode(sentences) * theirs).sum(1).mean()
    after = (learned.encode(sentences) * theirs).sum(1).mean()
    assert before < 0.7
    assert after > 0.95
    assert learned.space_of == teacher.fingerprint()
    assert_same_end(run.folder, stop_and_resume(train, 25, **OPTIONS).folder)


def test_an_encoder_that_is_changed_has_a_space_of_its_own(train: Train) -> None:
    learned = train(**{**OPTIONS, "steps": 2}).encoder
    assert learned.space_of
    assert learned.cut_to(8).space_of is None
    assert train("later", model=learned, steps=2).encoder.space_of is None


def test_a_teacher_is_asked_by_its_prompt_for_queries(train: Train, sentences: list[str]) -> None:
    teacher = Encoder.load(BUNDLED_MODEL)
    teacher.settings = {"prompts": {"query": "a red ball ", "document": "a cat "}}
    folder = train(**{**OPTIONS, "steps": 1}).folder.parent / "teacher"
    teacher.save(folder)
    learned = train("asked", **{**OPTIONS, "teachers": [str(folder)]}).encoder
    vectors = learned.encode(sentences)
    asked = (vectors * teacher.encode_query(sentences, normalize=True)).sum(1).mean()
    answered = (vectors * teacher.encode_document(sentences, normalize=True)).sum(1).mean()
    assert asked > answered


@pytest.mark.parametrize("teachers", [[], [str(BUNDLED_MODEL)] * 2])
def test_the_vectors_of_one_teacher_are_learned(train: Train, teachers: list[str]) -> None:
    with pytest.raises(InputError, match="vectors of one other encoder; name it by --teachers"):
        train(**{**OPTIONS, "teachers": teachers})


def test_the_map_is_a_ridge_regression() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(90, 7, generator=generator) * torch.logspace(0, -2, 7) + 3
    y = torch.randn(90, 4, generator=generator) + x @ torch.randn(7, 4, generator=generator)
    centred = (x - x.mean(0)).double()
    penalty = RIDGE * 90 * x.double().var(0, correction=0).mean() * torch.eye(7).double()
    weights = torch.linalg.solve(
        centred.T @ centred + penalty, centred.T @ (y - y.mean(0)).double()
    )
    expected = centred @ weights + y.double().mean(0)
    torch.testing.assert_close(linear_map(x, y)(x).double(), expected, rtol=1e-4, atol=1e-4)


def test_the_map_is_trained_further(train: Train, sentences: list[str]) -> None:
    theirs = Encoder.load(BUNDLED_MODEL).encode(sentences, normalize=True)
    stages = [
        {"method": "linear-map"},
        {"method": "distil", "match": "vectors", "learning_rate": 1e-3, "steps": 40},
    ]
    options = {"stages": stages, "teachers": OPTIONS["teachers"], "dev": "none", "batch_size": 30}
    free = dict.fromkeys(("steps", "learning_rate"))
    run = train(**options, **free)
    assert [type(head) for head in run.encoder.heads] == [Dense, Normalize]
    assert (run.encoder.encode(sentences) * theirs).sum(1).mean() > 0.99
    assert run.encoder.space_of == Encoder.load(BUNDLED_MODEL).fingerprint()


def test_the_teacher_makes_the_index_in_which_the_new_encoder_asks(train: Train) -> None:
    run = train(**{**OPTIONS, "steps": 1})
    index = shlex.quote(f"{run.folder}-index")
    kept = shlex.quote(str(run.folder / "encoder"))
    told = json.loads((run.folder / NEXT).read_text())
    teacher = shlex.quote(str(BUNDLED_MODEL))
    assert any(line.startswith(f"  isotune index {teacher} ") for line in told)
    assert any(line.endswith(" --tasks retrieval:FILE,QUESTION,ANSWER") for line in told)
    assert not any(line.startswith(("  isotune label", "  isotune evaluate")) for line in told)
    assert f'  isotune search {index} "YOUR QUESTION" --encoder {kept}' in told
    assert f"  isotune serve {kept} --index {index}" in told


def test_an_encoder_that_gives_its_own_vectors_asks_in_no_index_of_the_teacher(
    train: Train,
) -> None:
    run = train(**{**OPTIONS, "match": "similarities", "steps": 1})
    assert "--encoder" not in (run.folder / NEXT).read_text()


@pytest.fixture
def searched(train: Train, sentences: list[str], tmp_path: Path) -> Result:
    """A run that is judged by a search for sentences by their first words."""
    task = tmp_path / "search.tsv"
    lines = ["question\tanswer"]
    for number, sentence in enumerate(sentences):
        lines.append(f"{' '.join(sentence.split()[:3])} {number}\t{sentence} {number}")
    task.write_text("\n".join(lines) + "\n")
    return train(**OPTIONS, tasks=[f"retrieval:{task},question,answer"])


def test_a_search_is_one_in_the_index_of_the_teacher(searched: Result, tiny_model: Path) -> None:
    evaluation = searched.evaluation
    (name,) = evaluation.own_tasks
    (task,) = load_tasks([name])
    teacher = Encoder.load(BUNDLED_MODEL)
    found = searched.encoder.encode_query(task.queries, normalize=True)
    documents = teacher.encode(task.documents, normalize=True)
    ranking = np.argsort(-(found @ documents.T), axis=1, kind="stable")[:, :DEPTH]
    result, _ = task.result_of(ranking)
    assert evaluation.after.scores()[name] == pytest.approx(result.scores()[name], abs=1e-6)
    before = evaluate(str(tiny_model), name).scores()[name]
    assert evaluation.before.scores()[name] == pytest.approx(before, abs=1e-6)
    (near,) = evaluation.searches
    assert near.teachers == pytest.approx(evaluate(teacher, name).scores()[name], abs=1e-6)
    log = (searched.folder / "train.log").read_text()
    assert f"asks in that of the teacher {BUNDLED_MODEL}\n" in log
    assert "(nDCG@10 in the teacher's index)" in evaluation.decision
    page = (searched.folder / "report.html").read_text()
    assert f"asks in the index of {BUNDLED_MODEL}" in page


def test_the_verdict_on_a_query_encoder_is_about_the_index_of_the_teacher(
    searched: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = f"in the index of the teacher {BUNDLED_MODEL} it "
    monkeypatch.setattr(RunEvaluation, "shortfalls", [])
    evaluation = searched.evaluation
    verdict = evaluation.verdict
    assert (verdict.word, verdict.had) == ("NEW", f"the teacher {BUNDLED_MODEL}")
    (near,) = evaluation.searches
    part = near.part("retrieval:search.tsv,question,answer")
    assert verdict.why == f"{index}reaches this part of the teacher's nDCG@10: {part}"
    loss = {"difference": -0.2, "low": -0.3, "high": -0.1}
    worse = [each.model_copy(update=loss) for each in evaluation.differences]
    lost = evaluation.model_copy(update={"differences": tuple(worse)}).verdict
    assert lost.word == "NEW"
    assert "an index of the start finds more on retrieval:search.tsv" in lost.but
    agreement = Agreement(
        sentences=40, pairs=9, before=0.1, after=0.4, low=0.2, high=0.4, teachers=COST, student=COST
    )
    unjudged = evaluation.model_copy(update={"own_tasks": (), "agreement": agreement})
    assert (unjudged.verdict.word, unjudged.headline.kind) == ("NEW", "agreement")
    assert unjudged.verdict.why.startswith(f"{index}agrees more with the teacher")
    no_gain = agreement.model_copy(update={"low": -0.1})
    tied = unjudged.model_copy(update={"agreement": no_gain})
    assert tied.verdict.word == "CAN'T TELL"
    assert tied.verdict.had == f"the teacher {BUNDLED_MODEL}"
    unknown = unjudged.model_copy(update={"agreement": None})
    assert unknown.verdict.why.startswith("nobody has judged a search in the index of the teacher")


def test_a_query_encoder_that_words_alone_beat_is_not_advised(searched: Result) -> None:
    evaluation = searched.evaluation
    (control,) = evaluation.after.controls
    beaten = [
        each.model_copy(update={"low": -0.3, "high": -0.1}) for each in control.main_differences
    ]
    better = control.model_copy(update={"differences": tuple(beaten)})
    after = evaluation.after.model_copy(update={"controls": (better,)})
    verdict = evaluation.model_copy(update={"after": after}).verdict
    assert (verdict.word, verdict.had) == ("KEEP", f"the teacher {BUNDLED_MODEL}")
    assert verdict.why.endswith("it finds less than words alone do")


def test_after_keep_the_commands_search_by_the_teacher_alone(searched: Result) -> None:
    assert searched.verdict.word == "KEEP"
    assert searched.evaluation.words_that_pay
    told = json.loads((searched.folder / NEXT).read_text())
    commands = [line for line in told if line.startswith("  ")]
    teacher = shlex.quote(str(BUNDLED_MODEL))
    index = shlex.quote(f"{searched.folder}-index")
    assert commands[0].startswith(f"  isotune index {teacher} ")
    # The words were joined with the start's vectors, and not with the teacher's.
    assert commands[1:] == [
        f'  isotune search {index} "YOUR QUESTION"',
        f"  isotune serve {teacher} --index {index}",
    ]


def test_dev_data_choose_no_step_of_a_query_encoder(searched: Result) -> None:
    gain = {"name": "mine.tsv", "unit": "pairs", "rows": 9, "before": 0.1, "after": 0.2}
    dev = DevGain(**gain, low=-0.1, high=0.3, chose_step=False)
    evaluation = searched.evaluation.model_copy(update={"dev": dev})
    assert "dev data (mine.tsv) 10.00 -> 20.00" in evaluation.decision
    (shown,) = [gain for gain in evaluation.gains if gain.kind == "dev"]
    assert gain_title(shown) == "Dev data mine.tsv"
    assert "which" not in gain_sentence(shown)
    assert open_questions(evaluation, has_examples=True) == []
    unjudged = evaluation.model_copy(update={"own_tasks": ()})
    assert open_questions(unjudged, has_examples=True) == [
        "To measure the search, give questions and answers (--tasks retrieval:FILE)."
    ]

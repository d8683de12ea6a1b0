"""Runs whose stages keep weights between a start and an end."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from isotune.encoder.encoder import Encoder
from isotune.errors import InputError, UselessVectors
from isotune.training.candidates import START, Candidate, Candidates, ScoredCandidate
from tests.training.conftest import (
    Killed,
    Train,
    assert_same_end,
    killed,
    metrics,
    resume,
    same,
    stop_and_resume,
    weights,
)

SHARES = [0.5, 0.25, 1.0]


def candidates(run: Path) -> dict[float, dict[str, Any]]:
    """The records of a run's candidates, by their shares."""
    return {record["share"]: record for record in metrics(run, "candidate")}


def test_without_dev_data_the_first_share_of_the_way_is_kept(
    train: Train, tiny_model: Path
) -> None:
    plain = train("plain", dev="none")
    run = train("between", dev="none", interpolations=SHARES)
    (record,) = metrics(run.folder, "candidate")
    assert (record["step"], record["share"], record["kept"]) == (12, 0.5, True)
    start = Encoder.load(tiny_model).backbone.state_dict()
    end = plain.encoder.backbone.state_dict()
    for name, value in run.encoder.backbone.state_dict().items():
        torch.testing.assert_close(value, (start[name] + end[name]) / 2, rtol=0, atol=1e-6)
    assert run.evaluation.selected_share == 0.5
    assert run.evaluation.place_of_kept == "0.5 of the way to step 12"
    log = (run.folder / "train.log").read_text()
    assert "stage 1 keeps 0.5 of the way to step 12: its share stands first" in log
    assert "Kept: 0.5 of the way to step 12 of 12" in (run.folder / "report.html").read_text()


@pytest.mark.parametrize(("bound", "kept"), [(100.0, 1.0), (0.0, 0.0)])
def test_without_dev_data_no_candidate_is_kept_that_forgets_too_much(
    train: Train, bound: float, kept: float
) -> None:
    run = train(
        dev="none",
        learning_rate=0.1,
        steps=4,
        eval_every=4,
        most_forgotten=bound,
        interpolations=[1.0, 0.5],
    ).folder
    records = candidates(run)
    assert [share for share, record in records.items() if record["kept"]] == [kept]
    if not bound:
        # All were tried, the boldest first.
        assert list(records) == [1.0, 0.5, 0.0]
        assert all(records[share]["lost"] > bound for share in (1.0, 0.5))


@pytest.mark.parametrize("confidence", [0.0, 0.95])
def test_dev_data_choose_the_gentlest_that_may_be_best(train: Train, confidence: float) -> None:
    run = train(interpolations=SHARES, confidence=confidence)
    records = candidates(run.folder)
    scores = {share: record["score"] for share, record in records.items()}
    assert {0.0, *SHARES} == set(scores)
    (kept,) = [share for share, record in records.items() if record["kept"]]
    best = max(scores, key=lambda share: scores[share])
    assert kept <= best
    if not confidence:
        assert kept == best
    step = 12 if kept else 0
    assert (run.evaluation.selected_step, run.evaluation.dev.after) == (
        step,
        pytest.approx(scores[kept], abs=1e-6),
    )
    log = (run.folder / "train.log").read_text()
    assert f"candidate, the start: dev spearman {100 * scores[0.0]:.2f}" in log
    assert '<table class="candidates">' in (run.folder / "report.html").read_text()


@pytest.mark.parametrize("dev", ["pairs", "none"])
def test_a_resumed_run_keeps_the_same_candidate(train: Train, dev: str) -> None:
    options = {"interpolations": SHARES, "confidence": 0.0}
    if dev == "none":
        options["dev"] = dev
    whole = train("whole", **options)
    stopped = stop_and_resume(train, 6, **options)
    assert_same_end(whole.folder, stopped.folder)
    assert metrics(whole.folder, "candidate") == metrics(stopped.folder, "candidate")


@pytest.mark.parametrize("method", ["keep_one", "_record"])
def test_a_run_that_is_killed_in_its_choice_makes_the_same_choice(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Before the first candidate, and when all are measured."""
    options = {"interpolations": SHARES, "confidence": 0.0}
    whole = train("whole", **options)
    with monkeypatch.context() as patch:
        patch.setattr(Candidates, method, killed)
        with pytest.raises(Killed):
            train("killed", **options)
    again = resume(tmp_path / "killed")
    assert_same_end(whole.folder, again.folder)
    assert metrics(whole.folder, "candidate") == metrics(again.folder, "candidate")


def test_a_later_stage_that_keeps_its_start_keeps_the_candidate_before(train: Train) -> None:
    first = {"method": "simcse", "interpolations": [0.5], "steps": 4}
    forgets = {"learning_rate": 0.1, "most_forgotten": 0.0, "interpolations": [1.0], "steps": 4}
    options = {"dev": "none", "steps": None, "learning_rate": None}
    one = train("one", stages=[first], **options)
    two = train("two", stages=[first, {"method": "simcse", **forgets}], **options)
    shares = [(record["step"], record["share"]) for record in metrics(two.folder, "candidate")]
    assert shares == [(4, 0.5), (8, 1.0), (4, 0.0)]
    assert two.evaluation.place_of_kept == "0.5 of the way to step 4"
    assert same(weights(one.folder), weights(two.folder))


def test_a_method_whose_end_has_other_layers_is_refused_before_training(train: Train) -> None:
    with pytest.raises(InputError, match="interpolations: method simcse adds layers"):
        train(interpolations=[0.5], keep_projection=True)


def test_equal_shares_are_refused(train: Train) -> None:
    with pytest.raises(InputError, match=r"0\.5 stands there twice; give each share once"):
        train(interpolations=[0.5, 1.0, 0.5])


@pytest.mark.parametrize("confidence", [0.0, 0.9])
def test_the_warning_says_chance_only_where_chance_is_weighed(
    train: Train, confidence: float
) -> None:
    run = train(
        learning_rate=0.1,
        steps=2,
        eval_every=2,
        most_forgotten=0.0,
        interpolations=[1.0],
        confidence=confidence,
    ).folder
    (warning,) = (
        record["message"]
        for record in metrics(run, "warning")
        if record["message"].endswith("so the start was kept")
    )
    assert warning.startswith("no step that loses no more than most_forgotten scored better")
    assert ("by more than chance" in warning) == bool(confidence)


def test_the_log_says_what_each_stage_keeps_without_dev_data(train: Train) -> None:
    stages = [
        {"method": "simcse", "steps": 1},
        {"method": "simcse", "steps": 1, "interpolations": [0.5], "most_forgotten": 2.0},
    ]
    run = train(stages=stages, dev="none", steps=None, learning_rate=None).folder
    assert (
        "dev data: none; in stage 1, the last step, not the best, is kept; "
        "in stage 2, the encoder at 0.5 of the way from start to end is kept, "
        "or a gentler one if it loses more than 2 on general pairs"
    ) in (run / "train.log").read_text()


def test_the_start_is_kept_whole(train: Train, tiny_model: Path) -> None:
    """Where every candidate forgets too much, the kept encoder has the bits of the start."""
    run = train(
        dev="none", learning_rate=0.1, steps=2, most_forgotten=0.0, interpolations=[1.0]
    ).folder
    start = load_file(tiny_model / "model.safetensors")
    kept = weights(run)
    names = kept.keys() & start.keys()
    assert names
    assert same({name: kept[name] for name in names}, {name: start[name] for name in names})


@pytest.mark.parametrize("dev", ["pairs", "none"])
def test_a_candidate_that_cannot_be_scored_is_not_kept(
    train: Train, monkeypatch: pytest.MonkeyPatch, dev: str
) -> None:
    score = Candidates._score

    def only_the_start(candidates: Candidates, candidate: Candidate) -> ScoredCandidate:
        if candidate != START:
            raise UselessVectors("all cosines are the same")
        return score(candidates, candidate)

    monkeypatch.setattr(Candidates, "_score", only_the_start)
    options: dict[str, Any] = {"interpolations": SHARES}
    if dev == "none":
        options["dev"] = dev
    run = train(steps=2, eval_every=2, **options)
    log = (run.folder / "train.log").read_text()
    assert "0.5 of the way to step 2: it can't be kept, because all cosines are the same" in log
    assert "stage 1 keeps the start" in log
    assert run.evaluation.selected_step == 0

"""What runs cost: counted from their plan, at a pace that a trial measures."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isotune.console import PlainConsole
from isotune.errors import InputError
from isotune.lab.studies import cost, read_study
from isotune.lab.studies.cost import Costs, Estimate, Pace, Speed, StagePace, estimates
from isotune.lab.studies.plan import changed_study, plan_runs
from isotune.lab.studies.run_study import StudyRuns
from isotune.lab.studies.study import Study
from isotune.training import StageLength, stage_lengths

LENGTH = StageLength(texts=1000, cached=False, sentences=320, steps=10, evaluations=3)


def test_the_seconds_of_a_training_are_those_of_its_parts() -> None:
    pace = Pace([StagePace(step=2, evaluation=5)], rest=7, texts=100)
    speed = Speed(tokenize=0.01, encode=0.1)
    assert cost.seconds_of_training([LENGTH], pace, speed) == 7 + 10 * 2 + 3 * 5 + 900 * 0.01
    cached = replace(LENGTH, cached=True)
    assert cost.seconds_of_training([cached], pace, speed) == 7 + 10 * 2 + 3 * 5 + 900 * 0.1
    short = replace(LENGTH, texts=50)
    assert cost.seconds_of_training([short], pace, speed) == 7 + 10 * 2 + 3 * 5


def _records(*kinds: tuple[float, str, int, float]) -> list[tuple[float, dict[str, Any]]]:
    stamps = []
    for when, kind, step, seconds in kinds:
        record = {"kind": kind, "stage": 1, "step": step, "seconds": seconds}
        stamps.append((when, record))
    return stamps


def test_the_pace_of_a_trial_is_that_of_its_last_steps() -> None:
    stamps = _records(
        (9, "space", 0, 0), (29, "train", 10, 20), (34, "train", 20, 5), (36, "space", 20, 0)
    )
    pace = cost._pace_of_trial(stamps, 50, [LENGTH])
    assert pace == Pace([StagePace(step=0.5, evaluation=2)], rest=50 - 25 - 4, texts=1000)
    few = _records((9, "space", 0, 0), (29, "train", 2, 20), (32, "space", 2, 0))
    pace = cost._pace_of_trial(few, 50, [LENGTH])
    assert pace == Pace([StagePace(step=10, evaluation=3)], rest=50 - 20 - 6, texts=1000)


@pytest.fixture
def paced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every step takes a second, and nothing else any time; the kinds of runs that are tried."""
    kinds: list[str] = []

    def pace(kind: str) -> Pace:
        kinds.append(kind)
        return Pace([StagePace(step=1, evaluation=0)], rest=0, texts=10**9)

    monkeypatch.setattr(cost, "_measured_pace", pace)
    monkeypatch.setattr(cost, "_speed", lambda model: Speed(0, 0))
    return kinds


def test_runs_that_studies_share_and_runs_that_are_made_cost_nothing(
    table: dict[str, Any], tmp_path: Path, tiny_model: Path, paced: list[str]
) -> None:
    study = Study.from_table({**table, "options": {**table["options"], "steps": 7}})
    console = PlainConsole(quiet=True)
    paces = tmp_path / "paces.json"
    planned = {name: StudyRuns(study, tmp_path, str(tiny_model), console) for name in "ab"}
    first, second = (estimate for _, estimate in estimates(planned, paces))
    # Two methods x two temperatures x two seeds, and the model as it is.
    assert first.runs == 9
    assert first.seconds == pytest.approx(7 * 8, abs=1)
    assert (second.runs, second.seconds) == (0, pytest.approx(0, abs=1))
    # A temperature and a seed make no new kind.
    assert len(paced) == 2
    # A later call tries nothing.
    ((_, again),) = estimates({"a": planned["a"]}, paces)
    assert again.seconds == pytest.approx(first.seconds, abs=1)
    assert len(paced) == 2


def test_processes_that_try_kinds_at_once_keep_the_paces_of_each_other(
    table: dict[str, Any], tmp_path: Path, tiny_model: Path, paced: list[str]
) -> None:
    paces = tmp_path / "paces.json"
    several = []
    for arm in table["arms"][1:3]:
        study = Study.from_table({**table, "arms": [arm]})
        several.append((Costs(paces), plan_runs(study, str(tiny_model))))
    for costs, runs in several:
        costs.estimate(runs, ())
    assert len(json.loads(paces.read_text())) == len(paced) == 2
    for _, runs in several:
        Costs(paces).estimate(runs, ())
    assert len(paced) == 2


def test_runs_that_cant_be_timed_are_told(
    table: dict[str, Any], tmp_path: Path, tiny_model: Path, paced: list[str]
) -> None:
    table["arms"] = [
        {"name": "back", "recipe": "back-translation", "data": table["arms"][1]["data"]}
    ]
    study = Study.from_table(table)
    estimate = Costs(tmp_path / "paces.json").estimate(plan_runs(study, str(tiny_model)), ())
    assert str(estimate) == (
        "4 runs to make, up to 0 minutes on this machine; the time of 4 runs among them is "
        "unknown: it needs a translation by facebook/wmt19-en-de"
    )
    estimate += Estimate(1, 36_000.0)
    assert str(estimate).startswith("5 runs to make, up to 10 hours")


def test_a_kind_that_cant_be_tried_is_tried_once(
    table: dict[str, Any], tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def fail(kind: str) -> Pace:
        tried.append(kind)
        raise InputError("its data are away")

    monkeypatch.setattr(cost, "_measured_pace", fail)
    study = Study.from_table({**table, "arms": table["arms"][1:2]})
    estimate = Costs(tmp_path / "paces.json").estimate(plan_runs(study, str(tiny_model)), ())
    assert estimate.unknown == {"its data are away": 4}
    assert len(tried) == 1


# Hours at ten sentences a second, which an audit counted by another program.
@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize(("name", "hours"), [("consert/table2", 92), ("consert/table4", 124)])
def test_the_papers_runs_are_as_long_as_their_plan_says(name: str, hours: int) -> None:
    study = changed_study(read_study(name), (), {}, with_stand_ins=True)
    sentences = 0
    for run in plan_runs(study, "bert-tiny"):
        if run.recipe:
            (length,) = stage_lengths(run.recipe, "bert-tiny")
            sentences += length.sentences
    assert round(sentences / 10 / 3600) == hours


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "1 minute"), (90, "2 minutes"), (5400, "1.50 hours"), (36e6, "10,000 hours")],
)
def test_a_short_time_is_told_in_minutes(seconds: float, text: str) -> None:
    assert str(Estimate(runs=2, seconds=seconds)) == f"2 runs to make, up to {text} on this machine"

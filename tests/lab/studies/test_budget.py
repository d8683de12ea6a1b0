"""A study within some minutes: which runs are begun, and in which order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from isotune.encoder.options import EncoderOptions
from isotune.lab.studies import Study
from isotune.lab.studies.estimate import Budget
from isotune.lab.studies.job import Job, write_result
from isotune.lab.studies.plan import PlannedRun
from isotune.lab.studies.runs import StudyRuns


def run() -> PlannedRun:
    return PlannedRun("a", {}, None, "mini", EncoderOptions())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set; a run is estimated to take 30 seconds."""
    now = [1000.0]
    monkeypatch.setattr("isotune.lab.studies.estimate.monotonic", lambda: now[0])
    monkeypatch.setattr("isotune.lab.studies.estimate.seconds", lambda run, tasks, machine: 30.0)
    return now


def test_a_run_begins_only_if_it_will_end_in_time(clock: list[float]) -> None:
    budget, first, second = Budget(1, ()), run(), run()
    assert budget.admit(first)
    clock[0] += 45  # half as long again as it should have taken
    budget.finished(first)
    assert not budget.admit(second)  # 15 seconds are left, and it would take 45
    assert budget.left_out == [second]


def test_runs_shorter_than_estimated_leave_more_time(clock: list[float]) -> None:
    budget, first, second = Budget(1, ()), run(), run()
    assert budget.admit(first)
    clock[0] += 10
    budget.finished(first)
    clock[0] += 35  # 15 seconds are left, and it takes 10
    assert budget.admit(second)
    assert budget.left_out == []


class Workers:
    """Makes the runs that are admitted, without training."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def make(self, jobs: Sequence[Job], stop: object, admit: Callable[[Job], bool]) -> Iterator[tuple[Job, str]]:
        for job in jobs:
            if admit(job):
                assert job.recipe
                (job.folder / "encoder").mkdir(parents=True)
                write_result(job.folder, {"scores": {}, "evaluation": json.loads(EVALUATION)})
                seed, rate = job.recipe["seed"], job.recipe["stages"][0].get("learning_rate")
                self.made.append(f"{job.recipe['stages'][0]['method']} {seed} {rate}")
                yield job, ""


EVALUATION = '{"encoder": "x", "tasks": [], "averages": {}, "versions": {}, "created": "2026-01-01T00:00:00Z"}'

STUDY = Study.from_table(
    {
        "title": "t",
        "scores": ["dev"],
        "seeds": [7, 3],
        "grid": {"learning_rate": [1e-3, 1e-4]},
        "options": {"dev": "none"},
        "arms": [
            {"name": "first", "method": "simcse", "data": ["x"], "grid": {}},
            {"name": "second", "method": "consert", "data": ["x"], "start": "first"},
            {"name": "third", "method": "mirror", "data": ["x"]},
        ],
    }
)


@pytest.mark.parametrize(
    ("budget", "order"),
    [
        # Whole lines first: every arm's first cell with the first seed, what they start from before.
        (
            60,
            [
                "simcse 7 3e-05",
                "mirror 7 0.001",
                "consert 7 0.001",
                "mirror 7 0.0001",
                "consert 7 0.0001",
                "simcse 3 3e-05",
            ],
        ),
        # All that others start from first, so that the most can be made side by side.
        (
            None,
            [
                "simcse 7 3e-05",
                "mirror 7 0.001",
                "mirror 7 0.0001",
                "simcse 3 3e-05",
                "mirror 3 0.001",
                "mirror 3 0.0001",
            ],
        ),
    ],
)
def test_the_order_of_runs(budget: float | None, order: list[str], clock: list[float], tmp_path: Path) -> None:
    workers = Workers()
    runs = StudyRuns(STUDY, tmp_path, "", Console(quiet=True))
    runs.make(workers, object(), None if budget is None else Budget(budget, ()))  # type: ignore[arg-type]
    assert workers.made[:6] == order
    assert len(workers.made) == 10


def test_a_run_that_fails_does_not_change_the_estimates(clock: list[float], tmp_path: Path) -> None:
    class Failing(Workers):
        def make(self, jobs: Sequence[Job], stop: object, admit: Callable[[Job], bool]) -> Iterator[tuple[Job, str]]:
            for job in jobs:
                if admit(job):
                    clock[0] += 1
                    yield job, "no data"

    budget = Budget(1, ())
    StudyRuns(STUDY, tmp_path, "", Console(quiet=True)).make(Failing(), object(), budget)  # type: ignore[arg-type]
    clock[0] += 35
    assert not budget.admit(run())  # it takes 30 seconds, as far as is known


def test_runs_that_start_from_a_left_out_run_are_left_out(
    clock: list[float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workers = Workers()
    StudyRuns(STUDY, tmp_path, "", Console(soft_wrap=True)).make(workers, object(), Budget(0.4, ()))  # type: ignore[arg-type]
    assert workers.made == []
    said = capsys.readouterr().out
    assert (
        "would not end within 0.4 minutes: first, seed 7; third, learning rate 0.001, seed 7; second, learning" in said
    )
    assert said.count("second, learning rate") == 4

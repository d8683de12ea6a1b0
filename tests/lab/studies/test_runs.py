"""The order in which the runs of a study are made."""

from collections.abc import Callable
from pathlib import Path

import pytest

from isotune.console import PlainConsole
from isotune.files import CHECKSUMS, checksums
from isotune.lab.studies import Study
from isotune.lab.studies.job import RESULT, Job
from isotune.lab.studies.run_study import StudyRuns

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


class Workers:
    """Makes runs without training."""

    def __init__(self, count: int = 2) -> None:
        self.count = count
        self.begun: list[str] = []
        self.running: dict[Path, Job] = {}

    def start(self, job: Job) -> None:
        stage = job.recipe["stages"][0]
        self.begun.append(f"{stage['method']} {job.recipe['seed']} {stage['learning_rate']}")
        self.running[job.folder] = job

    def wait(self) -> tuple[Job, str]:
        job = self.running.pop(next(iter(self.running)))
        (job.folder / "encoder").mkdir(parents=True)
        (job.folder / RESULT).write_text('{"scores": {}}')
        (job.folder / CHECKSUMS).write_text(checksums(job.folder, (RESULT,)))
        return job, ""


@pytest.fixture
def make(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[StudyRuns, list[str]]]:
    """Makes the runs; returns them and the lines that were printed."""

    def make_runs(workers: Workers, **limit: float) -> tuple[StudyRuns, list[str]]:
        runs = StudyRuns(STUDY, tmp_path, "", PlainConsole(soft_wrap=True))
        runs.make(workers, **limit)  # type: ignore[arg-type]
        return runs, capsys.readouterr().out.splitlines()

    return make_runs


ORDER = [
    "simcse 7 3e-05",
    "mirror 7 0.001",  # beside it, because the next in line has to wait
    "consert 7 0.001",
    "consert 7 0.0001",
    "mirror 7 0.0001",
    "simcse 3 3e-05",
]


def test_the_first_seeds_and_cells_come_first(
    make: Callable[..., tuple[StudyRuns, list[str]]],
) -> None:
    workers = Workers()
    runs, said = make(workers)
    assert workers.begun[:6] == ORDER
    assert len(workers.begun) == 10
    assert runs.problems == {}
    assert said[:2] == ["t: 10 runs, 0 of them already done", "first, seed 7: made"]
    assert len(said) == 1 + 10


def test_no_run_begins_after_the_deadline(
    make: Callable[..., tuple[StudyRuns, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = Workers()
    monkeypatch.setattr("isotune.lab.studies.run_study.time.monotonic", lambda: len(workers.begun))
    runs, said = make(workers, deadline=4)
    assert workers.begun == ORDER[:4]
    assert said[-1] == "the budget is used: 6 runs of t left; the same command goes on"
    made = runs.made()
    assert [run.is_made for run in made].count(False) == 6
    assert runs.problems == {}
    again = Workers()
    make(again)
    assert len(again.begun) == 6


def test_a_run_whose_result_is_gone_has_failed(
    make: Callable[..., tuple[StudyRuns, list[str]]],
) -> None:
    class Losing(Workers):
        def wait(self) -> tuple[Job, str]:
            job, problem = super().wait()
            (job.folder / RESULT).unlink()
            return job, problem

    workers = Losing()
    runs, said = make(workers)
    assert len(workers.begun) == 6
    problems = sorted(set(runs.problems.values()))
    assert problems[-1] == "its result is not there"
    assert all(problem.endswith("failed, from which it starts") for problem in problems[:-1])
    assert len(said) == 1 + 10

"""A run of a recipe with a published score says in its report's first lines what is not as
published."""

from collections.abc import Callable
from pathlib import Path

import pytest

from isotune.data import DATASETS
from isotune.training.outcome import Result
from tests.hub.senteval import senteval
from tests.hub.server import LocalHub
from tests.training.conftest import Train


@pytest.fixture
def recipe(tmp_path: Path) -> Callable[[str], Path]:
    """A recipe with a published score on these tasks."""

    def write(tasks: str) -> Path:
        path = tmp_path / "published.toml"
        path.write_text(
            f'title = "x"\npublished = "STS-B 99"\npublished_on = [{tasks}]\n'
            '[[stages]]\nmethod = "simcse"\n'
        )
        return path

    return write


def first_lines(run: Result) -> str:
    return run.report.read_text("utf-8").partition("This page shows")[0]


def test_a_run_is_evaluated_as_published(
    train: Train, recipe: Callable[[str], Path], pairs: Path
) -> None:
    run = train(method=None, recipe=recipe(f'"{pairs}"'), tasks=None)
    assert [task.name for task in run.evaluation.after.tasks] == [str(pairs)]
    assert "Published" not in first_lines(run)


def test_sentevals_text_comes_from_its_archive_even_if_the_official_text_is_here(
    train: Train,
    recipe: Callable[[str], Path],
    local_hub: LocalHub,
    nothing_fetched: None,
    real_data: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ISOTUNE_DATA", str(real_data))
    monkeypatch.setattr("isotune.data.datasets._uniform", lambda source, *_: source.records)
    archive = DATASETS["senteval-sickr"].hub
    local_hub.add(
        archive.repository, {archive.file: senteval()}, kind="dataset", revision=archive.revision
    )
    run = train(method=None, recipe=recipe('"senteval-sickr", "sickr"'), tasks=None)
    assert {task.name: task.pairs for task in run.evaluation.after.tasks} == {
        "senteval-sickr": 12,
        "sickr": 4927,
    }
    assert "Published" not in first_lines(run)


def test_without_the_tasks_of_the_score_the_report_says_so(
    train: Train,
    recipe: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("ISOTUNE_DATA", raising=False)
    run = train(method=None, recipe=recipe('"sts"'), tasks=None, quiet=False)
    assert [task.name for task in run.evaluation.after.tasks] == ["stsb-open"]
    assert "not evaluated as published, on sts: sts12:test: set ISOTUNE_DATA" in " ".join(
        capsys.readouterr().err.split()
    )
    assert "Not evaluated as published, on sts." in first_lines(run)
    assert "Published: STS-B 99." in first_lines(run)


@pytest.mark.usefixtures("real_data")
def test_stand_ins_are_named(train: Train, recipe: Callable[[str], Path], pairs: Path) -> None:
    options = {"method": None, "tasks": [str(pairs)], "sample": 20, "steps": 1}
    run = train(recipe=recipe(f'"{pairs}"'), sources="quora:train", stand_ins=True, **options)
    assert "Trained on qqp-sample:train, which stands in for the published data." in first_lines(
        run
    )
    assert 'data = [\n    "qqp-sample:train",\n]' in (run.folder / "recipe.toml").read_text("utf-8")

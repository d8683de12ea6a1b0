"""Studies from their file to their page, on the tiny model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from filelock import FileLock
from pyarrow import parquet

from isotune.encoder.options import EncoderOptions
from isotune.errors import InputError
from isotune.lab.studies.job import RESULT, Job, make
from isotune.lab.studies.results import Results
from isotune.lab.studies.run_study import StudyOutcome, run_study

Write = Callable[[dict[str, Any]], Path]


@pytest.fixture
def study(table: dict[str, Any], write: Write, tiny_model: Path, tmp_path: Path) -> Callable[..., StudyOutcome]:
    """Runs the small study, with what is given over its table."""

    def run(out: str = "out", runs: str | None = None, seeds: tuple[int, ...] = (), **changes: Any) -> StudyOutcome:
        path = write({**table, **changes})
        return run_study(path, tmp_path / out, runs=runs, model=str(tiny_model), seeds=seeds, quiet=True)

    return run


def test_every_run_is_made_once_and_is_in_the_table(
    study: Callable[..., StudyOutcome], made: list[str], tmp_path: Path, pairs: Path, table: dict[str, Any]
) -> None:
    two = {"arms": table["arms"][:2]}
    outcome = study(**two)
    assert outcome.failed == 0
    assert len(made) == len(set(made)) == 1 + 2 * 2
    rows = parquet.read_table(tmp_path / "out" / "study.parquet").to_pylist()
    assert set(rows[0]) == {"arm", "model", "seed", "temperature", "run", "score", "value"}
    cells = [(row["arm"], row["seed"], row["temperature"]) for row in rows if row["score"] == str(pairs)]
    assert cells == [
        ("as it is", None, None),
        *(("SimCSE", seed, value) for value in (0.05, 0.5) for seed in (0, 1)),
    ]
    assert {row["value"] for row in rows if row["score"] == "steps"} == {6.0}
    page = outcome.page.read_text()
    assert "SimCSE, temperature 0.05" in page
    assert "No clear difference at 2 seeds" in page or "better than" in page

    study(**two)
    study(**two, out="other", runs=str(tmp_path / "out" / "runs"), title="Another study of the same runs")
    assert len(made) == 5
    study(**two, seeds=(1, 2))
    assert len(made) == 5 + 2  # those of seed 2
    study(**two, options={**table["options"], "learning_rate": 2e-3}, seeds=(0,))
    assert len(made) == 7 + 2  # not the model as it is


def test_a_changed_file_is_read_again(
    study: Callable[..., StudyOutcome], made: list[str], pairs: Path, table: dict[str, Any]
) -> None:
    as_it_is = {"arms": table["arms"][:1], "options": {}, "grid": {}}
    study(**as_it_is)
    study(**as_it_is)
    assert len(made) == 1
    pairs.write_text(pairs.read_text() + "A dog runs.\tA cat sleeps.\t5\n")
    study(**as_it_is)
    assert len(set(made)) == 2


def test_only_what_is_needed_is_kept_of_a_run(
    study: Callable[..., StudyOutcome], made: list[str], tmp_path: Path
) -> None:
    study(seeds=(0,), grid={})
    runs = [run for run in (tmp_path / "out" / "runs").iterdir() if (run / "recipe.toml").exists()]
    assert len(runs) == 2
    for run in runs:
        assert not {path.suffix for path in run.rglob("*")} & {".safetensors"}
        assert (run / "metrics.jsonl").exists()
        assert (run / "report.html").exists()
        recipe = (run / "recipe.toml").read_text()
        assert "steps = 6" in recipe
    arms = [
        {"name": "first", "method": "simcse", "data": [str(tmp_path / "text.txt")], "options": {"projection": False}},
        {"name": "second", "method": "consert", "data": [str(tmp_path / "text.txt")], "start": "first"},
    ]
    del made[:]
    study(out="chain", runs=str(tmp_path / "out" / "runs"), seeds=(0,), grid={}, arms=arms)
    assert len(made) == 2  # the first one again, for its encoder wasn't kept
    assert [(run / "encoder").exists() for run in (tmp_path / "out" / "runs" / key for key in made)] == [True, False]


def test_an_arm_starts_from_the_encoder_of_another_arm(
    study: Callable[..., StudyOutcome], made: list[str], tmp_path: Path, text: Path, pairs: Path
) -> None:
    arms = [
        {"name": "first", "method": "simcse", "data": [str(text)], "options": {"projection": False}},
        {"name": "second", "method": "consert", "data": [str(text)], "start": "first", "options": {"steps": 3}},
    ]
    score = str(pairs)
    study(arms=arms, grid={}, scores=[score, f"start:{score}"])
    first, second = (
        [run.values for run in Results.read(tmp_path / "out").runs if run.arm == name] for name in ("first", "second")
    )
    assert [run[f"start:{score}"] for run in second] == [run[score] for run in first]


def test_an_analysis_uses_the_encoders_of_the_first_seed(
    study: Callable[..., StudyOutcome], made: list[str], tmp_path: Path, pairs: Path, table: dict[str, Any]
) -> None:
    changes = {"arms": table["arms"][:2], "grid": {}, "analyses": ["cosines"], "analysed": [str(pairs)]}
    page = study(**changes).page.read_text()
    content = json.loads((tmp_path / "out" / "analyses" / "cosines.json").read_text())
    assert [row["encoder"] for row in content["table"][::30]] == ["as it is", "SimCSE"]
    runs = {run.seed: tmp_path / "out" / "runs" / run.run for run in Results.read(tmp_path / "out").runs}
    assert {seed: (run / "encoder").exists() for seed, run in runs.items()} == {None: False, 0: True, 1: False}
    assert content["title"] in page
    study(**changes)
    assert len(made) == 3


def test_a_failed_run_is_in_the_table_and_the_other_runs_are_made(
    study: Callable[..., StudyOutcome], made: list[str], tmp_path: Path, text: Path, table: dict[str, Any]
) -> None:
    arms = [*table["arms"], {"name": "no data", "method": "simcse", "data": [str(tmp_path / "none.txt")]}]
    arms.append({"name": "after it", "method": "simcse", "data": [str(text)], "start": "no data"})
    outcome = study(arms=arms, grid={}, seeds=(0,))
    assert outcome.failed == 2
    runs = {run.arm: run for run in Results.read(tmp_path / "out").runs}
    assert "none.txt: no such file" in runs["no data"].problem
    assert runs["after it"].problem == "no data, seed 0 failed, from which it starts"
    assert runs["ConSERT"].values
    page = outcome.page.read_text()
    assert "none.txt: no such file" in page
    assert "failed" in page
    text.rename(tmp_path / "none.txt")
    assert len(made) == 4


def test_a_missing_model_fails_only_its_own_run(
    write: Write, made: list[str], tiny_model: Path, tmp_path: Path, pairs: Path
) -> None:
    path = tmp_path / "models.toml"
    table = {
        "title": "Models",
        "tasks": [str(pairs)],
        "scores": [str(pairs)],
        "arms": [{"name": "here", "model": str(tiny_model)}, {"name": "not here", "model": str(pairs.parent / "x.d")}],
    }
    outcome = run_study(write(table), tmp_path / "out", quiet=True)
    assert outcome.failed == 1
    assert not path.exists()
    here, there = Results.read(tmp_path / "out").runs
    assert here.values
    assert "x.d" in there.problem


def test_starts_averages_and_single_cosines_are_scores(
    study: Callable[..., StudyOutcome], made: list[str], tmp_path: Path, pairs: Path
) -> None:
    score = str(pairs)
    study(scores=[score, f"start:{score}", "both", "cosine:3"], averages={"both": [score, "dev"]}, grid={}, seeds=(0,))
    as_it_is, simcse, _ = Results.read(tmp_path / "out").runs
    assert simcse.values[f"start:{score}"] == pytest.approx(as_it_is.values[score])
    assert simcse.values["both"] == pytest.approx((simcse.values[score] + simcse.values["dev"]) / 2)
    assert "both" not in as_it_is.values
    with np.load(tmp_path / "out" / "runs" / simcse.run / "study-cosines.npz") as arrays:
        assert simcse.values["cosine:3"] == arrays[score][3]


def test_the_pairs_of_a_study_and_single_predictions_are_scores(
    study: Callable[..., StudyOutcome], made: list[str], tmp_path: Path, pairs: Path, tiny_model: Path
) -> None:
    scored = pairs.read_text().splitlines()[1:]
    arms = [
        {
            "name": "fine-tuned",
            "method": "finetune-pair",
            "data": [str(pairs)],
            "options": {"classes": [], "dev_share": 0.5},
        }
    ]
    options = {"steps": 2, "batch_size": 8, "metrics": ["pearson"], "dev_data": [str(pairs)]}
    two = [["A dog runs.", "A dog runs."], ["A dog runs.", "A man sings."]]
    scores = ["cosine:0", "cosine:1", "predicted::1", "predicted::999", "test", "test:pearson", "dev"]
    study(arms=arms, options=options, grid={}, seeds=(0,), tasks=[], scores=scores, pairs=two)
    (run,) = Results.read(tmp_path / "out").runs
    assert run.values["cosine:0"] == pytest.approx(1) != run.values["cosine:1"]
    with np.load(tmp_path / "out" / "runs" / run.run / "predictions.npz") as arrays:
        assert run.values["predicted::1"] == arrays["dev"][1]
        assert len(arrays["test"]) == len(scored) - len(arrays["dev"])
    assert run.values["test"] == run.values["test:pearson"]
    assert "predicted::999" not in run.values


def test_the_sizes_of_datasets_need_no_run(made: list[str], write: Write, tmp_path: Path) -> None:
    table = {
        "title": "Sizes",
        "scores": ["train", "dev", "test", "texts"],
        "statistics": ["stsb"],
        "scale": 1,
        "published": [{"arm": "stsb", "scores": {"train": 5749, "dev": 1500, "test": 1379, "texts": 17256}}],
    }
    page = run_study(write(table), tmp_path / "out", quiet=True).page.read_text()
    assert [page.count(number) for number in ("5,749", "1,500", "1,379", "17,256")] == [2, 2, 2, 2]
    assert made == []


def test_a_wrong_task_is_refused_before_any_run(study: Callable[..., StudyOutcome], made: list[str]) -> None:
    with pytest.raises(InputError, match="stbs"):
        study(tasks=["stbs"])
    assert made == []


def test_a_run_that_another_study_makes_is_waited_for(tmp_path: Path) -> None:
    job = Job(folder=tmp_path / "run", recipe=None, model="none", encoder=EncoderOptions(), tasks=(), keep=False)
    with FileLock(f"{job.folder}.lock"):
        waiting = Thread(target=make, args=(job,))
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        job.folder.mkdir()
        (job.folder / RESULT).touch()
    waiting.join(60)
    assert [path.name for path in job.folder.iterdir()] == [RESULT]

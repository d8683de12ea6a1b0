"""Studies from their file to their page, on the tiny model."""

import json
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from isotune.encoder.options import EncoderOptions
from isotune.errors import InputError
from isotune.files import CHECKSUMS, checksums
from isotune.lab.studies.job import EVALUATION, RESULT, VALUES, Job, make
from isotune.lab.studies.page import Results
from isotune.lab.studies.run_study import StudyOutcome, run_study

Write = Callable[[dict[str, Any]], Path]
Run = Callable[..., StudyOutcome]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def study(table: dict[str, Any], write: Write, tiny_model: Path, tmp_path: Path) -> Run:
    """Runs the small study, with what is given over its table."""

    def run(
        out: str = "out",
        runs: str | None = None,
        seeds: tuple[int, ...] = (),
        quiet: bool = True,
        keep_encoders: bool = False,
        **changes: Any,
    ) -> StudyOutcome:
        path = write({**table, **changes})
        return run_study(
            path,
            tmp_path / out,
            runs=runs,
            model=str(tiny_model),
            seeds=seeds,
            keep_encoders=keep_encoders,
            quiet=quiet,
        )

    return run


def test_every_run_is_made_once(
    study: Run, made: list[str], tmp_path: Path, table: dict[str, Any]
) -> None:
    two = {"arms": table["arms"][:2]}
    assert study(**two).failed == 0
    assert len(made) == len(set(made)) == 1 + 2 * 2
    study(**two)
    runs = str(tmp_path / "out" / "runs")
    study(**two, out="other", runs=runs, title="Another study of the same runs")
    assert len(made) == 5
    study(**two, seeds=(1, 2), grid={"temperature": [0.5]})
    # Only the run of seed 2 is new.
    assert len(made) == 5 + 1


@pytest.mark.usefixtures("made")
def test_every_run_is_in_the_table_and_has_a_folder(
    study: Run, tmp_path: Path, pairs: Path, table: dict[str, Any], tiny_model: Path
) -> None:
    outcome = study(arms=table["arms"][:2])
    assert outcome.failed == 0
    as_it_is, *trained = Results.read(tmp_path / "out/study.json").runs
    assert (as_it_is.arm, as_it_is.seed, as_it_is.cell) == ("as it is", None, {})
    places = [(run.arm, run.seed, run.cell) for run in trained]
    assert places == [
        ("SimCSE", seed, {"temperature": value}) for value in (0.05, 0.5) for seed in (0, 1)
    ]
    assert all(str(pairs) in run.values for run in (as_it_is, *trained))
    assert {run.values["steps"] for run in trained} == {2.0}
    page = outcome.page.read_text()
    assert f"The model is {tiny_model}, not the study&#39;s bert-tiny." in page
    assert "SimCSE, temperature 0.05" in page
    assert "95 % interval" in page
    runs = tmp_path / "out" / "runs"
    for run in (run for run in runs.iterdir() if (run / "recipe.toml").exists()):
        assert "steps = 2" in (run / "recipe.toml").read_text()
        assert (run / "metrics.jsonl").exists()
        assert (run / "report.html").exists()
        assert not {path.suffix for path in run.rglob("*")} & {".safetensors"}


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "other JSON": lambda content: b"[]\n",
    "one bit": lambda content: content[:-30] + bytes([content[-30] ^ 1]) + content[-29:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_made_again(
    damage: str, study: Run, made: list[str], tmp_path: Path, table: dict[str, Any], capsys: Capture
) -> None:
    arms = [{"name": pooling, "options": {"pooling": pooling}} for pooling in ("cls", "max")]
    four: dict[str, Any] = {"arms": [*arms, table["arms"][1]], "grid": {}, "seeds": (0, 1)}
    study(**four)
    before = Results.read(tmp_path / "out/study.json").runs
    runs = tmp_path / "out" / "runs"
    damaged = [next(runs.glob(f"{before[0].run}.scores/*/{CHECKSUMS}"))]
    damaged.append(next(runs.glob(f"{before[1].run}.scores/*/{VALUES}")))
    damaged.append(runs / before[2].run / RESULT)
    damaged.append(next(runs.glob(f"{before[3].run}.scores/*/{EVALUATION}")))
    for path in damaged:
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
    del made[:]
    study(**four, quiet=False)
    said = capsys.readouterr().err
    for run, again in zip(before, Results.read(tmp_path / "out/study.json").runs, strict=True):
        assert run.run in made
        assert f"{run.run}: a file in it is damaged; the run is made again\n" in said
        assert again.values.keys() == run.values.keys()
        assert all(
            again.values[score] == run.values[score]
            for score in table["scores"]
            if score in run.values
        )
    assert len(made) == 4


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_scores_cost_no_training_whose_encoder_is_there(
    damage: str, study: Run, table: dict[str, Any], tmp_path: Path, pairs: Path
) -> None:
    options: dict[str, Any] = {"arms": table["arms"][1:2], "grid": {}, "seeds": (0,)}
    options |= {"keep_encoders": True}
    study(**options)
    before = Results.read(tmp_path / "out/study.json").runs
    (log,) = tmp_path.glob("out/runs/*/train.log")
    begun = log.stat().st_ino, log.read_text()
    for name in (EVALUATION, VALUES):
        path = next(tmp_path.glob(f"out/runs/*.scores/*/{name}"))
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
    study(**options)
    assert (log.stat().st_ino, log.read_text()) == begun
    (again,) = Results.read(tmp_path / "out/study.json").runs
    assert again.values == before[0].values


@pytest.mark.usefixtures("made")
# The checksums of the training, those of the scores, and those with the result.
@pytest.mark.parametrize("last", [1, 2, 3])
def test_a_kill_at_the_end_costs_no_training(
    last: int, study: Run, table: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one: dict[str, Any] = {"arms": table["arms"][1:2], "grid": {}, "seeds": (0,)}
    replace, left = Path.replace, iter(range(last))

    def killed(part: Path, path: Path) -> None:
        replace(part, path)
        if path.name == CHECKSUMS and next(left) == last - 1:
            raise SystemExit

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(SystemExit):
        study(**one)
    monkeypatch.setattr(Path, "replace", replace)
    (log,) = tmp_path.glob("out/runs/*/train.log")
    begun = log.stat().st_ino, log.read_text()
    assert study(**one).failed == 0
    assert (log.stat().st_ino, log.read_text()[: len(begun[1])]) == begun


@pytest.mark.parametrize("damaged", ["last.safetensors", "best-*.safetensors"])
def test_a_stopped_run_whose_checkpoint_is_damaged_is_made_again(
    damaged: str,
    study: Run,
    made: list[str],
    table: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    one: dict[str, Any] = {"arms": table["arms"][1:2], "grid": {}, "seeds": (0,)}
    replace = Path.replace

    def killed(part: Path, path: Path) -> None:
        replace(part, path)
        if path.name == "last.safetensors":
            raise SystemExit

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(SystemExit):
        study(**one)
    monkeypatch.setattr(Path, "replace", replace)
    (checkpoint,) = tmp_path.glob(f"out/runs/*/{damaged}")
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    outcome = study(**one, quiet=False)
    said = capsys.readouterr().err
    assert f"{checkpoint.parent.name}: a file in it is damaged; the run is made again\n" in said
    assert outcome.failed == 0


def test_a_chain_of_arms_with_analyses_and_scores_of_other_kinds(
    study: Run, made: list[str], tmp_path: Path, text: Path, pairs: Path, table: dict[str, Any]
) -> None:
    """The encoders that an arm starts from, or that an analysis looks at, are kept."""
    score, runs = str(pairs), tmp_path / "out" / "runs"
    arms = table["arms"][:2]
    study(arms=arms, grid={}, seeds=(0,))
    del made[:]
    arms = [*arms, {"name": "second", "method": "consert", "data": [str(text)], "start": "SimCSE"}]
    changes = {"analyses": ["cosines"], "analysed": [score], "averages": {"both": [score, "dev"]}}
    changes["scores"] = [score, f"start:{score}", "both", "cosine:3"]
    page = study(arms=arms, grid={}, **changes).page.read_text()
    as_it_is, *trained = Results.read(tmp_path / "out/study.json").runs
    first, second = trained[:2], trained[2:]
    assert {run.run for run in trained} < set(made)  # the first again, for its encoder was not kept
    kept = {(run.arm, run.seed): (runs / run.run / "encoder").exists() for run in trained}
    assert kept == {
        ("SimCSE", 0): True,
        ("SimCSE", 1): True,
        ("second", 0): True,
        ("second", 1): False,
    }
    assert [run.values[f"start:{score}"] for run in second] == [run.values[score] for run in first]
    assert first[0].values[f"start:{score}"] == pytest.approx(as_it_is.values[score])
    assert first[0].values["both"] == pytest.approx(
        (first[0].values[score] + first[0].values["dev"]) / 2
    )
    assert "both" not in as_it_is.values
    (values,) = runs.glob(f"{first[0].run}.scores/*/{VALUES}")
    with np.load(values) as arrays:
        assert first[0].values["cosine:3"] == arrays[score][3]
    content = json.loads((tmp_path / "out" / "analyses" / "cosines.json").read_text())
    assert [row["encoder"] for row in content["table"][::30]] == ["as it is", "SimCSE", "second"]
    assert content["title"] in page


def test_a_failed_run_is_in_the_table_and_the_other_runs_are_made(
    study: Run, made: list[str], tmp_path: Path, text: Path, table: dict[str, Any], capsys: Capture
) -> None:
    arms = [
        {"name": "no data", "method": "simcse", "data": [str(tmp_path / "none.txt")]},
        table["arms"][0],
    ]
    arms.append({"name": "after it", "method": "simcse", "data": [str(text)], "start": "no data"})
    outcome = study(arms=arms, grid={}, seeds=(0,), quiet=False)
    assert (outcome.failed, len(made)) == (2, 2)
    assert "no data, seed 0: failed: " in capsys.readouterr().err
    runs = {run.arm: run for run in Results.read(tmp_path / "out/study.json").runs}
    assert "none.txt: no such file" in runs["no data"].problem
    assert runs["after it"].problem == "no data, seed 0 failed, from which it starts"
    assert runs["as it is"].values
    page = outcome.page.read_text()
    assert "none.txt: no such file" in page
    assert "failed" in page


def test_a_defect_in_one_run_stops_no_other(
    study: Run,
    made: list[str],
    table: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr("isotune.lab.studies.job.train", broken)
    assert study(arms=table["arms"][:2], grid={}, seeds=(0,)).failed == 1
    as_it_is, trained = Results.read(tmp_path / "out/study.json").runs
    assert as_it_is.values
    assert trained.problem == "RuntimeError: out of memory"


def test_the_pairs_of_a_study_and_single_predictions_are_scores(
    study: Run, made: list[str], tmp_path: Path, pairs: Path, tiny_model: Path
) -> None:
    scored = pairs.read_text().splitlines()[1:]
    arms = [
        {
            "name": "fine-tuned",
            "method": "finetune-pair",
            "data": [str(pairs)],
            "options": {"classes": []},
        }
    ]
    options = {
        "steps": 2,
        "batch_size": 8,
        "metrics": ["pearson"],
        "dev_data": [str(pairs)],
        "dev_share": 0.5,
    }
    two = [["A dog runs.", "A dog runs."], ["A dog runs.", "A man sings."]]
    scores = [
        "cosine:0",
        "cosine:1",
        "predicted::1",
        "predicted::999",
        "test",
        "test:pearson",
        "dev",
    ]
    averages = {"both": ["predicted::0", "predicted::1"]}
    study(
        arms=arms,
        options=options,
        grid={},
        seeds=(0,),
        tasks=[],
        scores=scores,
        pairs=two,
        averages=averages,
    )
    (run,) = Results.read(tmp_path / "out/study.json").runs
    assert run.values["cosine:0"] == pytest.approx(1) != run.values["cosine:1"]
    with np.load(tmp_path / "out" / "runs" / run.run / "predictions.npz") as arrays:
        assert run.values["predicted::1"] == arrays["dev"][1]
        assert run.values["both"] == pytest.approx(arrays["dev"][:2].mean())
        assert len(arrays["test"]) == len(scored) - len(arrays["dev"])
    assert run.values["test"] == run.values["test:pearson"]
    assert "predicted::999" not in run.values


def test_seconds_of_encoding_are_a_score_of_every_run(
    study: Run, table: dict[str, Any], made: list[str], tmp_path: Path
) -> None:
    (pairs,) = table["tasks"]
    score = f"encoding:{pairs}"
    one: dict[str, Any] = {"arms": table["arms"][:2], "grid": {}, "seeds": (0,)}
    study(**one, scores=[pairs, score])
    before = Results.read(tmp_path / "out/study.json").runs
    assert all(0 < run.values[score] < 60 for run in before)
    page = (tmp_path / "out/study.html").read_text("utf-8")
    assert "seconds of encoding" in page
    study(**one, scores=[pairs, score])
    assert [run.values for run in Results.read(tmp_path / "out/study.json").runs] == [
        run.values for run in before
    ]
    with pytest.raises(InputError, match="unknown score 'encoding:stsb-open'"):
        study(**one, scores=["encoding:stsb-open"])


def test_a_wrong_task_is_refused_before_any_run(study: Run, made: list[str]) -> None:
    with pytest.raises(InputError, match="stbs"):
        study(tasks=["stbs"])
    assert made == []


def test_a_kept_encoder_is_scored_on_further_tasks_without_a_training(
    study: Run, table: dict[str, Any], made: list[str], tmp_path: Path
) -> None:
    one: dict[str, Any] = {"arms": table["arms"][:2], "grid": {}, "seeds": (0,)}
    study(**one, keep_encoders=True)
    (weights,) = tmp_path.glob("out/runs/*/encoder/model.safetensors")
    trained = weights.stat().st_mtime_ns
    before = Results.read(tmp_path / "out/study.json").runs
    more = {"tasks": [*table["tasks"], "stsb-open"], "scores": [*table["scores"], "stsb-open"]}
    del made[:]
    study(**one, **more)
    after = Results.read(tmp_path / "out/study.json").runs
    assert len(made) == 2
    assert weights.stat().st_mtime_ns == trained
    for old, new in zip(before, after, strict=True):
        assert new.run == old.run
        assert old.values.items() <= new.values.items()
        assert "stsb-open" in new.values
    del made[:]
    study(**one)
    assert made == []


def test_an_encoder_that_was_not_kept_is_trained_again_and_its_scores_stay(
    study: Run, table: dict[str, Any], made: list[str], tmp_path: Path
) -> None:
    one: dict[str, Any] = {"arms": table["arms"][1:2], "grid": {}, "seeds": (0,)}
    study(**one)
    (scores,) = tmp_path.glob(f"out/runs/*.scores/*/{EVALUATION}")
    scored = scores.stat().st_mtime_ns
    study(**one, tasks=["stsb-open"], scores=["stsb-open"])
    assert len(made) == 2
    assert scores.stat().st_mtime_ns == scored
    assert not list(tmp_path.glob("out/runs/*/encoder"))
    study(**one)
    assert len(made) == 2


def test_a_run_that_another_study_makes_is_waited_for(tmp_path: Path) -> None:
    job = Job(
        folder=tmp_path / "run",
        recipe={},
        model="none",
        encoder=EncoderOptions(),
        tasks={},
        keep=False,
    )
    with FileLock(f"{job.folder}.lock"):
        waiting = Thread(target=make, args=(job,))
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        job.folder.mkdir()
        (job.folder / RESULT).write_text("made")
        (job.folder / CHECKSUMS).write_text(checksums(job.folder, (RESULT,)))
    waiting.join(60)
    assert (job.folder / RESULT).read_text() == "made"

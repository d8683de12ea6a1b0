"""What resuming needs is checked before the first step.

What a first run leaves hinders no second.
"""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from transformers import BertConfig, BertModel

from isotune.encoder.encoder import Encoder
from isotune.engine.step import Stepper
from isotune.errors import InputError
from isotune.recipes import Recipe
from isotune.training import run, run_folder
from isotune.training.plan import _attach_past_stages, _try_stages
from isotune.training.run_folder import LAST, Progress, load_parts
from tests.conftest import make_tiny_model
from tests.training.conftest import (
    Killed,
    Train,
    assert_same_end,
    killed,
    resume,
    same,
    stopped_at,
    weights,
)


def best(folder: Path) -> Path:
    (path,) = folder.glob("best-*.safetensors")
    return path


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def write_wider_model(folder: Path) -> None:
    """Replaces a model by one whose inner layers have another width."""
    config = BertConfig.from_pretrained(folder)
    config.intermediate_size = 32
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)


NEEDED: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "kept weights cut": (lambda run, _: cut(best(run)), "this checkpoint is damaged"),
    "kept weights gone": (lambda run, _: best(run).unlink(), "best-.*: this file is missing"),
    "checkpoint cut": (lambda run, _: cut(run / LAST), "this checkpoint is damaged"),
    "records gone": (lambda run, _: (run / "metrics.jsonl").unlink(), "metrics.jsonl: it is dam"),
    "data.json gone": (lambda run, _: (run / "data.json").unlink(), "data.json: this file is mis"),
    "text gone": (lambda _, inputs: (inputs / "text.txt").unlink(), "text.txt: no such file"),
    "dev gone": (lambda _, inputs: (inputs / "pairs.tsv").unlink(), "pairs.tsv"),
    "model gone": (lambda _, inputs: shutil.rmtree(inputs / "model"), "model"),
    "another model": (
        lambda _, inputs: write_wider_model(inputs / "model"),
        "the checkpoint of the run doesn't fit the model",
    ),
}


class Part:
    """A part of a run that can't be loaded."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {}

    def load_state_dict(self, tensors: dict[str, torch.Tensor]) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("size mismatch"), r"doesn't fit the model \(size mismatch\); "),
        (torch.OutOfMemoryError("CUDA out of memory"), "memory of the device .* free some of it"),
    ],
)
def test_a_full_memory_is_no_other_model(error: Exception, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_parts({}, {"optimizer": Part(error)})


@pytest.mark.parametrize("need", NEEDED)
def test_a_run_that_lacks_something_is_refused_before_its_first_step(
    need: str, train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage, message = NEEDED[need]
    make_tiny_model(tmp_path / "model")
    with stopped_at(6):
        folder = train(model=str(tmp_path / "model")).folder
    damage(folder, tmp_path)
    before = {path: path.stat().st_size for path in folder.glob("*.safetensors")}
    monkeypatch.setattr(Stepper, "update", killed)
    with pytest.raises(InputError, match=message) as refused:
        resume(folder)
    assert "\n" not in str(refused.value)
    assert before == {path: path.stat().st_size for path in folder.glob("*.safetensors")}


def test_the_copy_of_a_start_in_memory_is_needed_too(
    train: Train, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stopped_at(6):
        folder = train(model=Encoder.load(tiny_model)).folder
    shutil.rmtree(folder / "start")
    monkeypatch.setattr(Stepper, "update", killed)
    with pytest.raises(InputError, match="start"):
        resume(folder)


def test_models_of_a_stage_that_is_over_are_not_needed(encoder: Encoder) -> None:
    over = {"method": "back-translation", "translate": ["nobody", "nobody"]}
    recipe = Recipe.from_table({"stages": [over, {"method": "simcse"}]})
    assert len(_attach_past_stages(recipe, Progress(stage=1), encoder)) == 1
    with pytest.raises(InputError, match="nobody"):
        _try_stages(recipe.stages, MagicMock(), encoder)


def test_a_run_that_has_lost_its_checkpoint_says_that_it_starts_again(train: Train) -> None:
    with stopped_at(8):
        folder = train().folder
    (folder / LAST).unlink()
    resume(folder)
    log = (folder / "train.log").read_text("utf-8")
    assert "last.safetensors is missing, so the run starts again at its first step; 8 steps" in log
    assert_same_end(train("whole").folder, folder)


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def broken(*_: object, **__: object) -> None:
    raise RuntimeError("a bug")


@pytest.mark.parametrize(
    ("module", "name", "failure", "error"),
    [
        (run_folder, "create", full_disk, OSError),
        (run_folder, "create", interrupted, KeyboardInterrupt),
        (run, "make_plan", broken, RuntimeError),
        (run, "make_plan", interrupted, KeyboardInterrupt),
        (run.StageTraining, "train", interrupted, KeyboardInterrupt),
        (run.StageTraining, "train", full_disk, OSError),
    ],
)
def test_a_run_that_failed_before_its_first_step_leaves_no_folder(
    module: Any,
    name: str,
    failure: Callable[..., None],
    error: type[BaseException],
    train: Train,
    tmp_path: Path,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, failure)
        with pytest.raises(error):
            train(steps=1)
    assert not (tmp_path / "run").exists()
    train(steps=1)


@pytest.mark.parametrize("failure", [interrupted, broken, full_disk])
def test_a_run_whose_hints_fail_keeps_its_folder(
    failure: Callable[..., None], train: Train, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "write_what_next", failure)
        with pytest.raises((KeyboardInterrupt, RuntimeError, OSError)):
            train(steps=1, keep_checkpoints=False)
    for name in ("encoder", "report.html", "evaluation.json"):
        assert (tmp_path / "run" / name).exists()


@pytest.mark.parametrize(("module", "name"), [(run, "make_plan"), (run.StageTraining, "train")])
def test_a_new_run_takes_the_folder_of_one_that_was_killed_before_its_first_step(
    module: Any, name: str, train: Train, tiny_model: Path, tmp_path: Path
) -> None:
    start = Encoder.load(tiny_model)
    whole = train("whole", model=start)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, killed)
        with pytest.raises(Killed):
            train(model=start)
    assert (tmp_path / "run" / "recipe.toml").exists()
    assert same(weights(train(model=start).folder), weights(whole.folder))


def test_a_new_run_takes_no_folder_in_which_steps_were_made(train: Train, tmp_path: Path) -> None:
    with stopped_at(6):
        folder = train().folder
    for lost in (LAST, "encoder"):
        path = folder / lost
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    before = {path.name for path in folder.iterdir()}
    with pytest.raises(InputError, match="this folder exists already"):
        train()
    assert {path.name for path in folder.iterdir()} == before

"""Runs that start from a new model, and masked language modelling in runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch
from safetensors.torch import load_file
from transformers import BertForMaskedLM

import isotune
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.training import Result
from tests.conftest import unfinish

Train = Callable[..., Result]
SCRATCH = {"layers": 2, "hidden": 16, "heads": 2, "intermediate": 24, "positions": 20, "vocabulary": 70}
STAGE = {"method": "mlm", "batch_size": 8, "steps": 6, "eval_every": 3, "learning_rate": 0.01, "optimizer": "muon"}


def terms(run: Path) -> list[dict[str, float]]:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [record["terms"] for record in records if record["kind"] == "train"]


@pytest.fixture
def recipe(tmp_path: Path, pairs: Path) -> Path:
    """Masked language modelling from scratch."""
    path = tmp_path / "scratch.toml"
    path.write_text(tomli_w.dumps({"dev": "none", "tasks": [str(pairs)], "scratch": SCRATCH, "stages": [STAGE]}))
    return path


def run(recipe: Path, text: Path | None, folder: Path, **options: Any) -> Result:
    return isotune.train(text or (), out=folder, recipe=recipe, quiet=True, **options)


def test_a_run_from_scratch_makes_the_model_and_trains_it(recipe: Path, text: Path, tmp_path: Path) -> None:
    result = run(recipe, text, tmp_path / "run")
    start, end = Encoder.load(result.folder / "start"), Encoder.load(result.encoder)
    assert start.tokenizer.get_vocab() == end.tokenizer.get_vocab()
    assert len(end.tokenizer) == 70
    assert (end.dimension, end.max_length, end.backbone.layers) == (16, 20, 2)
    before, found = BertForMaskedLM.from_pretrained(result.folder / "start", output_loading_info=True)
    after, also = BertForMaskedLM.from_pretrained(result.encoder, output_loading_info=True)
    assert not any(found.values()) and not any(also.values())  # noqa: PT018
    changed = {key for key, value in after.named_parameters() if not torch.equal(value, before.get_parameter(key))}
    assert changed == {key for key, _ in after.named_parameters()}


def test_a_run_from_scratch_is_resumed_on_the_model_it_made(recipe: Path, text: Path, tmp_path: Path) -> None:
    whole = run(recipe, text, tmp_path / "whole")
    killed = tmp_path / "killed"
    run(recipe, text, killed)
    # As if it had been killed before its first checkpoint.
    unfinish(killed)
    for path in killed.glob("*.safetensors"):
        path.unlink()
    made = (killed / "start" / "model.safetensors").stat().st_mtime_ns
    result = isotune.train(out=killed, resume=True, quiet=True)
    assert (killed / "start" / "model.safetensors").stat().st_mtime_ns == made
    expected = load_file(whole.encoder / "model.safetensors")
    found = load_file(result.encoder / "model.safetensors")
    assert all(torch.equal(value, expected[key]) for key, value in found.items())


def test_a_model_and_scratch_are_one_too_many(recipe: Path, text: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="model mini and scratch are both given"):
        run(recipe, text, tmp_path / "run", model="mini")


def test_a_vocabulary_can_not_be_made_of_standard_input(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="standard input can be read only once"):
        run(recipe, Path("-"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_masked_language_modelling_beside_a_method(train: Train, tiny_model: Path) -> None:
    result = train(mlm_weight=0.5)
    assert all(set(found) == {"info_nce", "mlm"} for found in terms(result.folder))
    assert "no whole masked-LM head" in (result.folder / "train.log").read_text()
    _, found = BertForMaskedLM.from_pretrained(result.encoder, output_loading_info=True)
    assert not any(found.values())
    assert all(set(found) == {"info_nce"} for found in terms(train("without").folder))


@pytest.mark.parametrize("mlm_weight", [0.0, 1.0])
def test_masked_language_modelling_then_a_method_and_resumed(
    mlm_weight: float, tmp_path: Path, short: dict[str, Any]
) -> None:
    stages = [
        {"method": "mlm", "batch_size": 8, "steps": 4, "eval_every": 4},
        {"method": "simcse", "batch_size": 8, "steps": 4, "eval_every": 4, "mlm_weight": mlm_weight},
    ]
    table = {"dev": "none", **{key: short[key] for key in ("model", "tasks")}}
    path = tmp_path / "two.toml"
    path.write_text(tomli_w.dumps({**table, "stages": stages}))
    result = isotune.train(short["sources"], out=tmp_path / "two", recipe=path, quiet=True)
    expected = load_file(result.encoder / "model.safetensors")
    assert ("cls.predictions.bias" in expected) == bool(mlm_weight)  # a head that isn't trained on would not fit
    unfinish(result.folder)
    again = isotune.train(out=result.folder, resume=True, quiet=True)
    found = load_file(again.encoder / "model.safetensors")
    assert found.keys() == expected.keys()
    assert all(torch.equal(value, expected[key]) for key, value in found.items())

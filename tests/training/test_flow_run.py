"""Runs whose methods add a flow to the encoder: it is trained, checkpointed, kept, and read back."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

import isotune
from isotune.data import Pair
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import NormalizingFlow
from isotune.methods.whitening import Whitening
from isotune.training import Result
from isotune.training.step import Stepper
from tests.conftest import WORDS

Train = Callable[..., Result]

BERT_CF = """
[[stages]]
method = "mirror"
spans = "tokens"
symmetric = false
steps = 4
batch_size = 8

[[stages]]
method = "bert-cf"
steps = 6
batch_size = 8
eval_every = 2
"""


def tensors(run: Path) -> list[dict[str, torch.Tensor]]:
    return [load_file(run / file) for file in ("last.safetensors", "encoder/model.safetensors")]


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def stop_at(total: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the run stop by a signal in its update number `total`."""
    step, count = Stepper.update, iter(range(1000))

    def interrupted(self: Stepper, number: int) -> Any:
        if next(count) == total:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, number)

    monkeypatch.setattr(Stepper, "update", interrupted)


@pytest.mark.parametrize("stop", [2, 7])
def test_bert_cf_of_two_stages_goes_on_bit_for_bit(
    stop: int, train: Train, sentences: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tmp_path / "bert_cf.toml"
    recipe.write_text(BERT_CF)
    options = {"recipe": recipe, "dev": "none"} | dict.fromkeys(("method", "steps", "batch_size", "eval_every"))
    whole = train("whole", **options)
    stop_at(stop, monkeypatch)
    assert train("parts", **options).stopped == "SIGTERM"
    monkeypatch.undo()
    resumed = isotune.train(out=tmp_path / "parts", resume=True, quiet=True)
    for a, b in zip(tensors(whole.folder), tensors(resumed.folder), strict=True):
        assert same(a, b)

    encoder = Encoder.load(resumed.encoder)
    (flow,) = encoder.heads
    assert isinstance(flow, NormalizingFlow)
    assert flow.config() == {"dimension": 32, "mixing": "lu", "levels": 1, "depth": 3, "width": 32}
    assert all(value for key, value in flow.state_dict().items() if key.endswith("initialised"))
    theirs = SentenceTransformer(str(resumed.encoder), trust_remote_code=True)
    np.testing.assert_allclose(theirs.encode(sentences), encoder.encode(sentences), atol=1e-5)


@pytest.mark.parametrize("cached", [True, False])
def test_flow_leaves_the_model_as_it_is(
    cached: bool, train: Train, tiny_model: Path, sentences: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"method": "flow", "cached": cached, "dev": "none"}
    whole = train("whole", **options)
    start, end = Encoder.load(tiny_model), Encoder.load(whole.encoder)
    assert same(start.backbone.state_dict(), end.backbone.state_dict())
    assert not np.allclose(start.encode(sentences), end.encode(sentences), atol=0.1)
    stop_at(5, monkeypatch)
    train("parts", **options)
    monkeypatch.undo()
    resumed = isotune.train(out=tmp_path / "parts", resume=True, quiet=True)
    for a, b in zip(tensors(whole.folder), tensors(resumed.folder), strict=True):
        assert same(a, b)


def test_vectors_are_cached_where_no_room_can_be_reserved(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fallocate")  # as on macOS
    train(method="flow")


class Killed(Exception):
    """In place of a signal that can't be caught."""


def killed(*_: Any) -> None:
    raise Killed


@pytest.mark.parametrize("stop", [6, 10, "fit"])
def test_vectors_are_of_the_encoder_that_the_stages_before_made(
    stop: int | str, train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = [{"method": "simcse"}, {"method": "flow"}, {"method": "clsr", "width": 8}, {"method": "sif"}]
    stages.append({"method": "whitening"})
    recipe = tmp_path / "stages.toml"
    recipe.write_text(tomli_w.dumps({"stages": stages}))
    rows = [Pair(f"a {one}", f"the {other}") for one in WORDS for other in WORDS[:2]]
    options = {"recipe": recipe, "method": None, "sources": None, "rows": rows, "steps": 4, "dev": "none"}
    whole = train("whole", **options)
    if stop == "fit":
        monkeypatch.setattr(Whitening, "fit", killed)
    else:
        step, count = Stepper.update, iter(range(1000))
        monkeypatch.setattr(Stepper, "update", lambda *given: (killed if next(count) == stop else step)(*given))
    with pytest.raises(Killed):
        train("parts", **options)
    monkeypatch.undo()
    resumed = isotune.train(out=tmp_path / "parts", rows=rows, resume=True, quiet=True)
    assert same(tensors(whole.folder)[0], tensors(resumed.folder)[0])


def test_mirror_masks_characters_in_a_run(train: Train) -> None:
    result = train(method="mirror", head_dropout=0.2, model_dropout=0.0, dev="none")
    records = map(json.loads, (result.folder / "metrics.jsonl").read_text().splitlines())
    losses = [record["terms"]["mirror"] for record in records if record["kind"] == "train"]
    assert len(losses) == 2
    assert all(0 < loss < 10 for loss in losses)

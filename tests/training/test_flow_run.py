"""Runs whose methods add a flow to the encoder: it is trained, checkpointed, kept, and read
back."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

from isotune.data import Pair
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import NormalizingFlow
from isotune.engine.step import Stepper
from isotune.methods.whitening import Whitening
from tests.conftest import WORDS
from tests.training.conftest import (
    Killed,
    Train,
    assert_same_end,
    killed,
    resume,
    same,
    stop_and_resume,
)


def test_bert_cf_of_two_stages_goes_on_bit_for_bit(train: Train) -> None:
    first = {"method": "mirror", "spans": "tokens", "symmetric": False, "steps": 4}
    stages = [first, {"method": "bert-cf", "steps": 6, "eval_every": 2}]
    options = {"stages": stages, "dev": "none"} | dict.fromkeys(("steps", "eval_every"))
    whole = train("whole", **options)
    for stop in (2, 7):
        assert_same_end(whole.folder, stop_and_resume(train, stop, **options).folder)

    encoder = whole.encoder
    (flow,) = encoder.heads
    assert isinstance(flow, NormalizingFlow)
    assert flow.config() == {"dimension": 32, "mixing": "lu", "levels": 1, "depth": 3, "width": 32}
    assert all(value for key, value in flow.state_dict().items() if key.endswith("initialised"))


@pytest.mark.parametrize("cached", [True, False])
def test_flow_leaves_the_model_as_it_is(
    cached: bool,
    train: Train,
    tiny_model: Path,
    sentences: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = {"method": "flow", "cached": cached, "dev": "none"}
    whole = train("whole", **options)
    start, end = Encoder.load(tiny_model), whole.encoder
    assert same(start.backbone.state_dict(), end.backbone.state_dict())
    assert not np.allclose(start.encode(sentences), end.encode(sentences), atol=0.1)
    monkeypatch.delattr(
        os, "posix_fallocate"
    )  # as on macOS, where no room can be reserved for the cached vectors
    assert_same_end(whole.folder, stop_and_resume(train, 5, **options).folder)


def test_vectors_are_of_the_encoder_that_the_stages_before_made(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = [
        {"method": "simcse"},
        {"method": "flow"},
        {"method": "clsr", "width": 8},
        {"method": "sif"},
    ]
    stages.append({"method": "whitening"})
    rows = [Pair(f"a {one}", f"the {other}") for one in WORDS for other in WORDS[:2]]
    options = {"stages": stages, "sources": None, "rows": rows, "steps": 4, "dev": "none"}
    whole = load_file(train("whole", **options).folder / "last.safetensors")
    step = Stepper.update
    for stop in (6, "fit"):
        count = iter(range(1000))

        def update(*given: Any, count: Any = count, stop: int | str = stop) -> Any:
            return (killed if next(count) == stop else step)(*given)

        with monkeypatch.context() as patch:
            patch.setattr(
                *(Whitening, "fit", killed) if stop == "fit" else (Stepper, "update", update)
            )
            with pytest.raises(Killed):
                train(f"killed-{stop}", **options)
        resumed = resume(tmp_path / f"killed-{stop}", rows=rows)
        assert same(whole, load_file(resumed.folder / "last.safetensors"))

"""Which number type a machine computes faster in: by its instructions."""

import logging
from pathlib import Path

import pytest
import torch

from isotune.encoder.encoder import Encoder
from isotune.kernels.precision import faster_precision, warn_of_bfloat16


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [({"avx512_bf16": True, "amx_bf16": False}, "bfloat16"), ({"amx_bf16": True}, "bfloat16"), ({}, "float32")],
)
def test_bfloat16_is_taken_where_there_are_instructions_for_it_and_warned_of_elsewhere(
    instructions: dict[str, bool],
    expected: str,
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: instructions)
    assert faster_precision("cpu") == expected
    with caplog.at_level(logging.WARNING):
        Encoder.load(tiny_model, device="cpu")
        assert caplog.messages == []
        Encoder.load(tiny_model, precision="bfloat16", device="cpu")
    assert caplog.messages == [warn_of_bfloat16("cpu")] * (expected == "float32")


@pytest.mark.parametrize(("capability", "expected"), [((7, 5), "float32"), ((8, 0), "bfloat16"), ((9, 0), "bfloat16")])
def test_gpus_have_the_instructions_from_ampere_on(
    capability: tuple[int, int], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert faster_precision("cuda") == expected

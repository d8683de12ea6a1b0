"""Which number type a machine computes faster in: by its instructions."""

import logging
from pathlib import Path

import pytest
import torch

from isotune.encoder.encoder import Encoder
from isotune.kernels.precision import has_bfloat16, warn_of_bfloat16


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [({"avx512_bf16": True, "amx_bf16": False}, True), ({"amx_bf16": True}, True), ({}, False)],
)
def test_bfloat16_is_taken_where_there_are_instructions_for_it_and_warned_of_elsewhere(
    instructions: dict[str, bool],
    expected: bool,
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: instructions)
    assert has_bfloat16("cpu") == expected
    with caplog.at_level(logging.WARNING):
        Encoder.load(tiny_model, device="cpu")
        assert caplog.messages == []
        Encoder.load(tiny_model, precision="bfloat16", device="cpu")
    assert caplog.messages == [warn_of_bfloat16("cpu")] * (not expected)


@pytest.mark.parametrize(
    ("capability", "expected"), [((7, 5), False), ((8, 0), True), ((9, 0), True)]
)
def test_gpus_have_the_instructions_from_ampere_on(
    capability: tuple[int, int], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert has_bfloat16("cuda") == expected

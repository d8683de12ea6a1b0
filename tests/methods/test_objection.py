"""ConSERT's objection to a text: too few sentences are found again by their views."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from isotune.encoder.encoder import Encoder
from isotune.methods.consert import ConSERT
from isotune.methods.options import ConSERTOptions


@pytest.mark.parametrize(("least", "objects"), [(0.0, False), (0.75, False), (0.76, True)])
def test_the_share_of_sentences_found_again(tiny_model: Path, least: float, objects: bool) -> None:
    method = ConSERT(ConSERTOptions(least_told_apart=least), Encoder.load(tiny_model))
    first, second = torch.eye(4), 5 * torch.eye(4)  # the length says nothing
    second[2] = torch.tensor([0.0, 0.0, 1.0, 2.0])
    second[3] = torch.tensor([1.0, 0.0, 0.0, 1.0])  # the last sentence finds the view of the third
    objection = method.objection([first, second])
    assert bool(objection) == objects
    assert not objection or "finds 75.0% of 4 sentences again" in objection

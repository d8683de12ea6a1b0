"""A power cut at a random moment loses nothing that was on the disk, and the work goes on from what is left.

`ISOTUNE_CUTS` is how many states of the disk the slow tests try for each kind of work; `ISOTUNE_SEED` chooses others.
"""

from __future__ import annotations

import os

import pytest

from tests.crashes.test_kills import run
from tests.crashes.work import WORKS

CUTS = int(os.environ.get("ISOTUNE_CUTS", "25"))
# The record does not see what other processes do, and LanceDB brings nothing to the disk by itself.
UNSEEN = {"two processes", "encoding by two processes", "indexing"}


@pytest.mark.parametrize(
    ("name", "cuts"),
    [("finetune-pair", 6), *(pytest.param(n, CUTS, marks=pytest.mark.slow) for n in WORKS if n not in UNSEEN)],
)
def test_work_goes_on_after_a_power_cut(name: str, cuts: int) -> None:
    assert run("power_cuts", name, cuts)["cuts"] == cuts

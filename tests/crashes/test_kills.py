"""Work that is killed, or whose power is cut, at random moments loses nothing: it ends as if nobody
had disturbed it.

`ISOTUNE_KILLS` is how many processes the slow tests kill of each kind of work, `ISOTUNE_CUTS` how
many states of the disk after a power cut they try; `ISOTUNE_SEED` chooses other moments.
"""

import os

import pytest

from tests.crashes import kills, power_cuts
from tests.crashes.commands import in_new_process
from tests.crashes.work import WORKS

KILLS = int(os.environ.get("ISOTUNE_KILLS", "25"))
CUTS = int(os.environ.get("ISOTUNE_CUTS", "25"))
SEED = int(os.environ.get("ISOTUNE_SEED", "0"))
# The record does not see what other processes do, and LanceDB brings nothing to the disk by itself.
UNSEEN = {"two processes", "encoding by two processes", "indexing"}


def slow(count: int, names: set[str]) -> list[object]:
    return [pytest.param(name, count, marks=pytest.mark.slow) for name in WORKS if name in names]


@pytest.mark.parametrize(
    ("name", "count"),
    [("simcse", 3), ("encoding by two processes", 2), ("indexing", 2), *slow(KILLS, {*WORKS})],
)
def test_killed_work_ends_as_if_undisturbed(name: str, count: int) -> None:
    in_new_process(kills.main, name, SEED, count)


@pytest.mark.parametrize(("name", "count"), [("finetune-pair", 3), *slow(CUTS, {*WORKS} - UNSEEN)])
def test_work_goes_on_after_a_power_cut(name: str, count: int) -> None:
    in_new_process(power_cuts.main, name, SEED, count)

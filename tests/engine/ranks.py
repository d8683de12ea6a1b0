"""A process of a group that makes steps together; it leaves its results in a folder."""

import tests.hub.environment  # noqa: F401

import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from isotune.cli import main
from isotune.engine import workers
from isotune.engine.workers import Workers
from isotune.methods import self_guided
from tests.engine.steps import gradient, make

PROCESSES = 4
GROUPS = ((2, 1), (4, 1), (2, 2))  # processes, and threads of each
CHUNK_SIZES = (None, 2)


def make_steps(
    rank: int, names: Sequence[str], model: Path, sentences: list[str], folder: Path
) -> None:
    """Makes a step of each method in each group of this process, also with a gradient cache."""
    torch.set_num_threads(1)
    workers.SMALLEST = 1  # as in this folder's tests
    self_guided.PROJECTION_WIDTH = 32
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=PROCESSES
    )
    groups = {count: dist.new_group(list(range(count))) for count in (2, 4)}
    results = {}
    for name in names:
        for count, threads in GROUPS:
            if rank < count:
                step = make(name, model, sentences)  # anew: a flow's first batch sets its weights
                with closing(Workers(threads, groups[count])) as group:
                    for chunk_size in CHUNK_SIZES:
                        results[f"{name} {count} {threads} {chunk_size}"] = gradient(
                            *step, group, chunk_size
                        ).numpy()
    np.savez(folder / f"{rank}.npz", **results)
    dist.destroy_process_group()


def train_with_error(
    rank: int, failing: int, place: str, error: Exception, words: Sequence[str], folder: Path
) -> None:
    """Calls `isotune train` as one of two processes, of which one meets an error.

    What it says is left in a file.
    """

    def fail(*_: object, **__: object) -> None:
        raise error

    os.environ["WORLD_SIZE"] = "2"
    os.dup2(os.open(folder / f"{rank}.txt", os.O_WRONLY | os.O_CREAT), 2)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    with pytest.MonkeyPatch.context() as patch:
        if rank == failing:
            patch.setattr(place, fail)
        sys.exit(main(words))

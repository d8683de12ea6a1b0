"""A process of a group that makes steps together; it leaves its results in a folder."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

# isort: off
import tests.conftest  # noqa: F401 (before all else: it sets the environment of huggingface_hub)

# isort: on
import numpy as np
import torch
import torch.distributed as dist

from isotune.errors import InputError
from isotune.methods import self_guided
from isotune.training.workers import Workers
from tests.training.steps import gradient, make

PROCESSES = 4
GROUPS = ((2, 1), (4, 1), (2, 2))  # processes, and threads of each
CHUNK_SIZES = (None, 2)


def make_steps(rank: int, names: Sequence[str], model: Path, sentences: list[str], folder: Path) -> None:
    """Makes a step of each method, in each group that this process belongs to, with and without a gradient cache."""
    torch.set_num_threads(1)
    self_guided.PROJECTION_WIDTH = 32
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=PROCESSES)
    groups = {count: dist.new_group(list(range(count))) for count in (2, 4)}
    results = {}
    for name in names:
        for count, threads in GROUPS:
            if rank < count:
                step = make(name, model, sentences)  # anew: a flow's first batch sets its weights
                with closing(Workers(threads, groups[count])) as workers:
                    for chunk_size in CHUNK_SIZES:
                        results[f"{name} {count} {threads} {chunk_size}"] = gradient(*step, workers, chunk_size).numpy()
    np.savez(folder / f"{rank}.npz", **results)
    dist.destroy_process_group()


def meet_error(rank: int, error: Exception, folder: Path) -> None:
    """Has the first of two processes raise an error that all get; each leaves what it got."""

    def fail() -> None:
        raise error

    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    try:
        Workers(1, dist.group.WORLD).by_leader(fail)
    except (InputError, OSError) as caught:
        (folder / f"{rank}.txt").write_text(repr(caught))
    dist.destroy_process_group()

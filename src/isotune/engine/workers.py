"""Who makes the passes of a step: the threads of this process, and those of the other processes.

Each thread of each process is a worker. A large batch has a share for each of them, and torch
computes with a single thread in each, so that workers never wait for each other within a pass. A
small batch has fewer shares, because each costs a gradient of the whole model, and the threads that
are left over help with the products of a share. Processes are started by torchrun or any other
launcher that sets RANK and WORLD_SIZE.

Every process computes the same loss, so collectives only join and add plain tensors. Here the
gradients of processes are added; `forward.py` adds those of threads. The first process leads: it
alone writes files.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import ParamSpec, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore, _get_default_store
from torch.distributed.rendezvous import rendezvous

from isotune.errors import InputError
from isotune.kernels.device import default_device
from isotune.kernels.threads import compute_alone, restored_threads, single_threads

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")

LAUNCHED = ("RANK", "MASTER_ADDR", "MASTER_PORT")
"""What a launcher sets, beside WORLD_SIZE."""

PATIENCE = timedelta(days=30)
"""How long a process waits for the others: one of them may be making texts, as translations."""

SMALLEST = 768
"""Tokens of the smallest share.

`python benchmarks/run.py cores --threads 1 2 4 8 16` measures it, in the column of processor
seconds.
"""


class Workers:
    """The workers of a run, seen from one of its processes."""

    def __init__(self, threads: int = 1, group: dist.ProcessGroup | None = None) -> None:
        """Takes the number of threads of this process, and the processes; None for this alone."""
        self.threads = threads
        self.world_size = 1
        self.rank = 0
        """The number of this process."""
        if group is not None:
            self.world_size = dist.get_world_size(group)
            self.rank = dist.get_rank(group)
        self.is_rank_zero = self.rank == 0
        """Whether this process is the first, which alone writes files."""
        self._group = group
        # A job has the same thread in every step: a thread's memory, once freed, is kept for it.
        self._executors = []
        if threads > 1:
            self._executors = [single_threads("worker", 1) for _ in range(threads)]
        self._threads_of_each = 1

    def shard_count(self, tokens: int) -> int:
        """How many shares each process makes of a batch of `tokens` tokens: up to one a thread."""
        return max(1, min(self.threads, tokens // (self.world_size * SMALLEST)))

    def local_shards(self, shares: Sequence[T], rank: int | None = None) -> Sequence[T]:
        """The part of process `rank`, or else of this process, of the shares of all processes."""
        if rank is None:
            rank = self.rank
        count = math.ceil(len(shares) / self.world_size)
        return shares[rank * count : (rank + 1) * count]

    def map(self, act: Callable[[U], T], items: Sequence[U]) -> list[T]:
        """Calls a function with each item in a thread, in the caller's gradient mode and autocast.

        There are up to as many items as threads, which share torch's threads.
        """
        if len(items) < 2 or not self._executors:
            return [act(item) for item in items]
        self._share_threads(self.threads // len(items))
        gradient = torch.is_grad_enabled()
        autocast = partial(
            torch.autocast,
            "cpu",
            torch.get_autocast_dtype("cpu"),
            enabled=torch.is_autocast_enabled("cpu"),
        )

        def act_alike(item: U) -> T:
            with torch.set_grad_enabled(gradient), autocast():
                return act(item)

        executors = self._executors[: len(items)]
        running = []
        for executor, item in zip(executors, items, strict=True):
            running.append(executor.submit(act_alike, item))
        return [job.result() for job in running]

    def _share_threads(self, count: int) -> None:
        """Has each worker compute with `count` of torch's threads."""
        if count == self._threads_of_each:
            return
        with restored_threads():
            for executor in self._executors:
                executor.submit(compute_alone, count).result()
        self._threads_of_each = count

    def all_gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """Joins the rows [n, ...] of all processes, in their order.

        `counts` are the numbers of rows of each process.
        """
        if self._group is None:
            return rows
        padded = rows.new_zeros(max(counts), *rows.shape[1:])
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded, self._group)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    def all_reduce_sum(self, x: Tensor) -> Tensor:
        """The sum of the tensors of all processes."""
        if self._group is not None:
            dist.all_reduce(x, group=self._group)
        return x

    def drop_gradients_off_rank_zero(self, parameters: Iterable[nn.Parameter]) -> None:
        """Clears gradients that every process has computed, in all processes but the first.

        So the sum counts them once.
        """
        if not self.is_rank_zero:
            for parameter in parameters:
                parameter.grad = None

    def all_reduce_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Sums each parameter's gradient over the processes.

        A gradient that no process has stays None, so the parameter does not decay.
        """
        if self._group is None:
            return
        parameters = self._used(list(parameters))
        gradients = []
        for parameter in parameters:
            gradient = parameter.grad
            if gradient is None:
                gradient = torch.zeros_like(parameter)
            gradients.append(gradient.flatten())
        total = self.all_reduce_sum(torch.cat(gradients))
        sizes = [parameter.numel() for parameter in parameters]
        for parameter, gradient in zip(parameters, total.split(sizes), strict=True):
            parameter.grad = gradient.view_as(parameter)

    def _used(self, parameters: Sequence[nn.Parameter]) -> list[nn.Parameter]:
        """The parameters for which some process has a gradient."""
        here = [parameter.grad is not None for parameter in parameters]
        counts = self.all_reduce_sum(torch.tensor(here, dtype=torch.int32)).tolist()
        return [parameter for parameter, count in zip(parameters, counts, strict=True) if count]

    def all_reduce_max(self, number: int) -> int:
        """The highest of the numbers of all processes."""
        if self._group is None:
            return number
        numbers = torch.tensor(number)
        dist.all_reduce(numbers, dist.ReduceOp.MAX, self._group)
        return int(numbers)

    def on_rank_zero(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a function with these arguments in the first process; all get its result."""
        outcome = [act(*args, **kwargs) if self.is_rank_zero else None]
        if self._group is not None:
            dist.broadcast_object_list(outcome, group=self._group, group_src=0)
        return outcome[0]  # type: ignore[return-value]

    @contextmanager
    def rank_zero_first(self) -> Iterator[None]:
        """A block that the first process has left, without an error, before the others enter it."""
        if not self.is_rank_zero:
            self._wait_for_all()
        yield
        if self.is_rank_zero:
            self._wait_for_all()

    def _wait_for_all(self) -> None:
        self.all_reduce_max(0)

    @contextmanager
    def one_error(self) -> Iterator[None]:
        """The first process that fails keeps its error.

        The others, which wait for it, raise an error that points to it.
        """
        try:
            yield
        except BaseException as error:
            if self._group is None or self._ends_first() or not isinstance(error, Exception):
                raise
            raise InputError(
                "another process of the run has ended; what it has printed says why"
            ) from error

    def _ends_first(self) -> bool:
        """Whether this process is the first that fails."""
        try:
            first = _get_default_store().compare_set("ended", "", str(self.rank)).decode()
        except RuntimeError:
            # The store was in the first process, which has ended.
            return False
        return first == str(self.rank)

    def close(self) -> None:
        """Ends the threads, and lets go of the group, whose threads end with its last reference."""
        for executor in self._executors:
            executor.shutdown()
        # A thread of the group that outlives Python's end would abort the process.
        self._group = None


@contextmanager
def workers_of_run() -> Iterator[Workers]:
    """The workers of a run: as many threads as torch has, and all processes of a launcher."""
    launched = int(os.environ.get("WORLD_SIZE", "1")) > 1
    device = default_device()
    joins = launched and not dist.is_initialized()
    if joins:
        _join_group(device)
    threads = torch.get_num_threads() if device == "cpu" else 1
    workers = Workers(threads, dist.group.WORLD if launched else None)
    try:
        with workers.one_error():
            yield workers
    finally:
        workers.close()
        if joins:
            dist.destroy_process_group()


def _join_group(device: str) -> None:
    """Joins the processes that a launcher has started, and takes a GPU for this process."""
    if device == "mps":
        raise InputError("several processes can't share an Apple GPU; set ISOTUNE_DEVICE=cpu")
    missing = [name for name in LAUNCHED if name not in os.environ]
    if missing:
        raise InputError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but {', '.join(missing)} is not set: start "
            "the run by torchrun, which sets all of them, or unset WORLD_SIZE for a run of one "
            "process"
        )
    if device == "cuda" and "LOCAL_RANK" not in os.environ:
        # Launchers without a local rank number the processes machine by machine.
        torch.cuda.set_device(int(os.environ["RANK"]) % torch.cuda.device_count())
    store, rank, processes = next(rendezvous("env://"))
    # A restart may find the store of the processes before, with their addresses.
    store = PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=PATIENCE, store=store, rank=rank, world_size=processes)


def was_restarted() -> bool:
    """Whether a launcher has started this process again, because a process had failed."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0

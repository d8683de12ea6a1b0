"""Work for the machines of a Ray cluster, by `--engine ray`."""

import logging
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Generic, Self, TypeVar

from isotune.errors import InputError, as_input_error, require_extra
from isotune.plugins import load_plugin, loaded_plugins

WAITING = 1000
"""Tasks that Ray has at a time, so that it sees how many machines it could use."""

TRIES = 10
"""Times that a task is tried again whose process or machine is lost."""

SECONDS = 10
"""Seconds until a cluster answers."""

T = TypeVar("T")
R = TypeVar("R")


def connect(address: str | None = None) -> tuple[int, int]:
    """Connects to the Ray cluster at an address or at `RAY_ADDRESS`, or starts Ray here.

    The connection lasts until this process ends. Returns the numbers of the cluster's processors
    and GPUs.
    """
    require_extra("ray", "ray")
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # Ray says nothing of lost tasks then.
    os.environ["RAY_DEDUP_LOGS_SKIP_REGEX"] = "."
    address = address or os.environ.get("RAY_ADDRESS", "local")
    kinds = (OSError, OverflowError, RuntimeError, ValueError)
    with as_input_error(kinds, f"{address}: no Ray cluster answers"):
        # Ray itself waits for many minutes.
        place = re.fullmatch(r"(?:ray://)?(.+):(\d{1,5})", address)
        if place:
            socket.create_connection((place[1], int(place[2])), SECONDS).close()
        ray.init(
            address, ignore_reinit_error=True, log_to_driver=False, logging_level=logging.ERROR
        )
    resources = ray.cluster_resources()
    return int(resources.get("CPU", 0)), int(resources.get("GPU", 0))


class Tasks(Generic[T, R]):
    """Tasks of the cluster, each for an item.

    Those that still run when the `with` block ends are killed. The task of a process or a machine
    that is lost is done again, on another.
    """

    def __init__(
        self, work: Callable[[T], R], cpus: int = 1, gpus: int = 0, *, reused: bool = True
    ) -> None:
        """Starts nothing yet.

        Each task has `cpus` processors and `gpus` GPUs for itself, and if not `reused`, a process.
        """
        import ray

        most = 0
        for node in ray.nodes():
            if node["Alive"]:
                most = max(most, node["Resources"].get("CPU", 0))
        if cpus > most:
            raise InputError(
                f"a task needs {cpus} processors; the largest machine of this Ray cluster has "
                f"{most:g}"
            )
        # With 0 a process stays after its task, which it would not do on a GPU.
        calls = 0 if reused else 1
        remote = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=TRIES, max_calls=calls)
        self._task: Any = remote(_call)
        plugins = [os.path.abspath(plugin.path) for plugin in loaded_plugins()]
        self._work = ray.put((work, plugins))
        self.running: dict[Any, T] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        import ray

        for task in self.running:
            ray.cancel(task, force=True)

    def start(self, item: T) -> None:
        """Starts the task of an item."""
        self.running[self._task.remote(self._work, item)] = item

    def wait(self) -> tuple[T, R | str]:
        """Waits until a task ends; gives its item, and its result or why there is none."""
        import ray

        (done, *_), _ = ray.wait(list(self.running))
        item = self.running.pop(done)
        try:
            return item, ray.get(done)
        except ray.exceptions.RayTaskError as error:
            # Any other error is a defect, which keeps its traceback.
            if not isinstance(error.cause, InputError | OSError):
                raise
            return item, str(error.cause)
        except ray.exceptions.RayError as error:
            lost = f"{item}: its process was lost {TRIES + 1} times, perhaps because memory ran out"
            return item, f"{lost} ({' '.join(str(error).split())})"


def spread(work: Callable[[T], R], items: Iterable[T], gpus: int) -> Iterator[tuple[T, R | str]]:
    """Gives what `Tasks.wait` says of each item, as soon as that is there."""
    left = iter(items)
    with Tasks(work, gpus=gpus) as tasks:
        while True:
            for item in islice(left, WAITING - len(tasks.running)):
                tasks.start(item)
            if not tasks.running:
                return
            yield tasks.wait()


def _call(sent: tuple[Callable[[T], R], list[str]], item: T) -> R:
    work, plugins = sent
    for plugin in plugins:
        load_plugin(plugin)
    return work(item)

"""Runs a job on every processor or GPU of a Ray cluster.

Ray only starts the workers, and starts a worker again that dies. The workers share the parts like any other processes
(`job.py`), so no data goes through Ray: a worker takes its next part when it has written the one before, and needs the
memory of one process. All machines of the cluster need isotune, and the same folders under the same names.
"""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from isotune.errors import InputError
from isotune.plugins import loaded_plugins
from isotune.use.bulk.job import Job, Outcome
from isotune.use.bulk.parts import Part

RETRIES = 10  # of a worker; a part that kills its process must not do so for ever


def run_on_ray(job: Job) -> Outcome:
    """Runs a job on the cluster that $RAY_ADDRESS names, or else on this machine alone.

    There is a worker for each GPU of the cluster; without GPUs, one for each core, with one thread.

    Raises:
        InputError: Ray is not installed, there is no such cluster, all workers died, or the job can't be done, see
            `Job.run`.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else Ray reports to its makers
    try:
        import ray
    except ImportError as error:
        raise InputError("--engine ray: Ray is not installed; pip install 'isotune[ray]'") from error

    connected = ray.is_initialized()
    if not connected:
        # Without an address, Ray would look for a cluster in its temporary files, and wait for one that died.
        address = os.environ.get("RAY_ADDRESS", "local")
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        except ConnectionError as error:
            raise InputError(f"--engine ray: no Ray cluster answers at {address} ($RAY_ADDRESS)") from error
    try:
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        gpus, cores = int(resources.get("GPU", 0)), int(resources.get("CPU", 0))
        plugins = [Path(plugin.path).resolve() for plugin in loaded_plugins()]
        worker = ray.remote(num_gpus=min(gpus, 1), num_cpus=0 if gpus else 1, max_retries=RETRIES)(_work)
        return _first_result(
            [worker.remote(_absolute(job), plugins) for _ in range(min(gpus or cores or 1, len(job.parts)))]
        )
    finally:
        # The other workers end by themselves. To cancel them can crash Ray 2.60, if a worker ends just then.
        if not connected:
            ray.shutdown()


def _work(job: Job, plugins: list[Path]) -> Outcome:
    """What a worker does."""
    import isotune

    isotune.tune_process()
    for plugin in plugins:
        isotune.load_plugin(plugin)
    return job.run()


def _first_result(running: list[Any]) -> Outcome:
    """The result of the worker that ends first: a worker ends when all parts are done."""
    import ray

    while running:
        [ended], running = ray.wait(running, num_returns=1)
        try:
            outcome: Outcome = ray.get(ended)
            return outcome
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, InputError):
                raise error.cause from None
            raise
        except ray.exceptions.RayError as error:
            problem = error
    raise InputError(f"--engine ray: all workers died, the last with {type(problem).__name__}: {problem}")


def _absolute(job: Job) -> Job:
    """The job with absolute paths, because a worker runs in another folder."""
    encoder = str(Path(job.encoder).absolute()) if Path(job.encoder).exists() else job.encoder
    parts = tuple(Part(part.source.absolute(), part.name) for part in job.parts)
    return replace(job, encoder=encoder, parts=parts, out=job.out.absolute())

"""Kills processes that encode: python -m tests.use.bulk.kill_workers SEED KILLS < JOB

The job is a pickle. Two processes work at it. One of them is killed in the middle of a part, and another one starts; so
many times, unless the job ends before. Prints how many processes were killed.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import sys
import time

import torch

from isotune.use.bulk import job as job_module
from isotune.use.bulk.job import Job
from isotune.use.bulk.part_file import encode_file


class Worker:
    """A forked process that runs a job; all modules are loaded in it. It says so when it begins a part."""

    def __init__(self, job: Job) -> None:
        self.begun, says = os.pipe()
        self.number = os.fork()
        if self.number == 0:
            job_module.encode_file = lambda *parts, **options: (os.write(says, b"."), encode_file(*parts, **options))
            job.run()
            os._exit(0)
        os.close(says)

    def kill_in_a_part(self, delay: float) -> bool:
        """Kills the process so many seconds after it began a part; False if the process ended before."""
        if not os.read(self.begun, 1):
            return False
        time.sleep(delay)
        os.kill(self.number, signal.SIGKILL)
        return os.waitpid(self.number, 0)[1] == signal.SIGKILL


def main(seed: int, kills: int) -> None:
    """Kills so many processes, and lets the others end."""
    torch.set_num_threads(1)
    job: Job = pickle.load(sys.stdin.buffer)
    generator = random.Random(seed)
    running = [Worker(job), Worker(job)]
    killed = 0
    while killed < kills and running[0].kill_in_a_part(generator.uniform(0, 0.03)):
        killed += 1
        running = [running[1], Worker(job)]
    job.run()
    print(killed)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

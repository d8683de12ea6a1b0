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

from isotune.use.bulk.claims import read_state
from isotune.use.bulk.job import Job


def start(job: Job) -> int:
    """Forks a process that runs the job; all modules are loaded in it."""
    process = os.fork()
    if process == 0:
        job.run()
        os._exit(0)
    return process


def has_claim(process: int, job: Job) -> bool:
    """Whether a process encodes a part now."""
    states = (read_state(path) for path in (job.out / ".encoding").glob("*.json"))
    return any(state.get("claimed_by", {}).get("pid") == process for state in states)


def kill_in_a_part(process: int, job: Job, delay: float) -> bool:
    """Kills a process so many seconds after it was seen to encode; False if the process ended before."""
    while not has_claim(process, job):
        if os.waitpid(process, os.WNOHANG) != (0, 0):
            return False
        time.sleep(0.002)
    time.sleep(delay)
    os.kill(process, signal.SIGKILL)
    return os.waitpid(process, 0)[1] == signal.SIGKILL


def main(seed: int, kills: int) -> None:
    """Kills so many processes, and lets the others end."""
    torch.set_num_threads(1)
    job: Job = pickle.load(sys.stdin.buffer)
    generator = random.Random(seed)
    running = [start(job), start(job)]
    killed = 0
    while killed < kills and kill_in_a_part(running[0], job, generator.uniform(0, 0.03)):
        killed += 1
        running = [running[1], start(job)]
    job.run()
    print(killed)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

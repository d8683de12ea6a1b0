"""Simulates what a slow machine and a lost machine cost when many machines encode the files of one folder.

    python benchmarks/failures.py [--repeats 200]

A machine locks a file, encodes it, and locks the next one, as `isotune encode` does. The slow machine needs twice the
time for each file. The lost machine ends at a random moment; another machine takes its file over when the file server
has freed its lock. The extra time is against as many machines without a mishap. Prints a Markdown table. Takes some
seconds.
"""

import argparse
import random
from heapq import heapify, heappop, heappush
from statistics import fmean

STALE = 90.0  # seconds after which an NFS server of Linux frees the locks of a lost machine
SLOW = 2.0  # how many times as long as others the slow machine needs
CASES = [
    (machines, files, seconds) for machines in (8, 64) for files, seconds in ((20, 60.0), (20, 600.0), (200, 60.0))
]


def main() -> None:
    """Simulates every case, and prints the means over all moments of a loss."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200)
    options = parser.parse_args()
    moments = random.Random(0)
    print("| machines | files for each | seconds a file | a slow machine | a lost machine | its share of all work |")
    print("|---|---|---|---|---|---|")
    for machines, each, seconds in CASES:
        files = machines * each
        alone = duration(machines, files, seconds)
        slow = duration(machines, files, seconds, slow=True)
        lost = fmean(
            duration(machines, files, seconds, lost_at=moments.uniform(0, alone)) for _ in range(options.repeats)
        )
        extra = [f"{took / alone - 1:+.1%}" for took in (slow, lost)]
        print(f"| {machines} | {each} | {seconds:.0f} | {extra[0]} | {extra[1]} | {1 / machines:.1%} |")


def duration(machines: int, files: int, seconds: float, *, slow: bool = False, lost_at: float = float("inf")) -> float:
    """The seconds until all files are encoded.

    Machine 0 is the slow one, or the one that is lost after `lost_at` seconds. The others wait for its lock.
    """
    free = [(0.0, machine) for machine in range(machines)]  # when a machine can lock its next file
    heapify(free)
    end, stale_from = 0.0, 0.0  # stale_from: when the file of the lost machine can be locked
    while files:
        moment, machine = heappop(free)
        moment = max(moment, stale_from) if files == 1 else moment
        done = moment + seconds * (SLOW if slow and machine == 0 else 1.0)
        if machine == 0 and done > lost_at:
            stale_from = lost_at + STALE
            continue  # the file is left for the others
        files -= 1
        end = max(end, done)
        heappush(free, (done, machine))
    return end


if __name__ == "__main__":
    main()

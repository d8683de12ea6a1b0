"""Measures the encoding of many files by one process and by several.

    python benchmarks/many_files.py [--model MODEL] [--sentences 64000] [--files 16] [--rounds 3]

Every process has one thread. The text is the bundled one, repeated. The rate counts from the moment when the first
process has loaded the encoder to the end of the last file. The memory is the most that all processes of a command hold
together; what processes share counts once. Prints a Markdown table. Needs psutil.
With the defaults and two cores it takes ten to twenty minutes.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import psutil
from machine import processor

from isotune.bundled import BUNDLED_MODEL
from isotune.data import Sentence, read

WAYS = {"1 process": 1, "2 processes": 2}  # the number of commands that are started at once


class Measurement(NamedTuple):
    """One encoding of all files.

    Attributes:
        rate: sentences a second.
        seconds: from the start of the commands to their end.
        memory: megabytes.
    """

    rate: float
    seconds: float
    memory: float


def main() -> None:
    """Measures each way in turn, and prints the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=BUNDLED_MODEL)
    parser.add_argument("--sentences", type=int, default=64_000)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    measured: dict[str, list[Measurement]] = {way: [] for way in WAYS}
    with TemporaryDirectory() as folder:
        write_text(Path(folder), options.sentences, options.files)
        for number in range(options.rounds):
            for way, count in WAYS.items():
                out = Path(folder, f"{number}-{way}")
                command = [sys.executable, "-m", "isotune", "encode", options.model, f"{folder}/*.txt"]
                measured[way].append(measure([*command, "--out", str(out)], count, out))
    print(f"{options.model}, {options.sentences:,} sentences in {options.files} files; {processor()}\n")
    print("| way | sentences a second | seconds with the start | memory of all processes, MB |")
    print("|---|---|---|---|")
    for way, rounds in measured.items():
        rate, seconds, memory = (median(values) for values in zip(*rounds, strict=True))
        print(f"| {way} | {rate:,.0f} | {seconds:.1f} | {memory:,.0f} |")


def write_text(folder: Path, sentences: int, files: int) -> None:
    """Writes files of text."""
    texts = cycle([row.sentence for row in read("stsb-open:train", Sentence)])
    for number in range(files):
        lines = islice(texts, sentences // files)
        (folder / f"{number:03}.txt").write_text("".join(f"{line}\n" for line in lines))


def measure(command: list[str], count: int, out: Path) -> Measurement:
    """Runs a command so many times at once, with a shard each."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    start = time.time()
    commands = [[*command, "--shard", f"{number}/{count}"] for number in range(1, count + 1)]
    running = [subprocess.Popen(each, env=environment, stdout=subprocess.DEVNULL) for each in commands]
    memory = 0.0
    while any(process.poll() is None for process in running):
        memory = max(memory, sum(held_by(process.pid) for process in running))
        time.sleep(0.2)
    seconds = time.time() - start
    assert all(process.returncode == 0 for process in running)
    manifest = out / "_manifest.json"
    begun = (out / ".encoding" / "settings.json").stat().st_mtime
    return Measurement(json.loads(manifest.read_text())["rows"] / (manifest.stat().st_mtime - begun), seconds, memory)


def held_by(pid: int) -> float:
    """Megabytes of a process and of all that it has started."""
    total = 0
    try:
        process = psutil.Process(pid)
        for each in [process, *process.children(recursive=True)]:
            total += each.memory_full_info().pss
    except psutil.Error:  # it has just ended
        pass
    return total / 1e6


if __name__ == "__main__":
    main()

"""Measures how the time and memory of training, indexing and searching grow with the number of sentences.

    python benchmarks/scale.py [--counts 50000 500000 5000000] [--folder DIR]

Each command is a process of its own: `isotune train` with the recipe default and the bundled model, `isotune index`
with that model, and `isotune search`. The sentences are beginnings and ends of the bundled ones, joined at random, all
different. Prints a Markdown table; the memory is the most that a process held, files that are mapped into it included.
"""

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from machine import processor

from isotune.bundled import BUNDLED_MODEL, bundled_data

HEAD = 5  # words of a beginning


def main() -> None:
    """Measures each command at each count, smallest first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="+", default=[50_000, 500_000, 5_000_000])
    parser.add_argument("--folder", type=Path, help="where to work; unset: the system's temporary folder")
    options = parser.parse_args()
    print(f"{processor()}\n\n| command | sentences | seconds | processor seconds | peak memory, MB |")
    print("|---|---|---|---|---|")
    for count in sorted(options.counts):
        with TemporaryDirectory(dir=options.folder) as folder:
            text, index = Path(folder, "text.txt"), str(Path(folder, "index"))
            write_text(text, count)
            commands = {
                "train": ["train", str(text), "--out", str(Path(folder, "run"))],
                "index": ["index", BUNDLED_MODEL, str(text), "--out", index],
                "search": ["search", index, "a man plays a guitar"],
            }
            for name, words in commands.items():
                numbers = " | ".join(f"{number:,.0f}" for number in measure(words, Path(folder, f"{name}.log")))
                print(f"| {name} | {count:,} | {numbers} |", flush=True)


def write_text(path: Path, count: int) -> None:
    """Writes so many different sentences."""
    words = [line.split() for line in (bundled_data() / "stsb-open" / "train.txt").read_text("utf-8").splitlines()]
    heads = sorted({" ".join(line[:HEAD]) for line in words})
    tails = sorted({" ".join(line[HEAD:]) for line in words})
    pairs = random.Random(0).sample(range(len(heads) * len(tails)), count)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{heads[pair // len(tails)]} {tails[pair % len(tails)]}\n" for pair in pairs)


def measure(words: list[str], log: Path) -> tuple[float, float, float]:
    """Runs a command; returns its seconds, its processor seconds and its peak memory in megabytes."""
    start = time.monotonic()
    with log.open("w") as file:
        process = subprocess.Popen([sys.executable, "-m", "isotune", *words], stdout=file, stderr=file)
        _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"isotune {' '.join(words)} failed: {log.read_text()}")
    return time.monotonic() - start, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    main()

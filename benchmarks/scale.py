"""Measures how the time and memory of commands grow: with the sentences, the steps, or the batch.

    python benchmarks/scale.py [sentences] [steps] [batch]
        [--counts 50000 500000 5000000] [--folder DIR]

Each command is a process of its own, on the bundled model:

- `sentences`: `isotune train` with the recipe consert-sif, `encode`, `index` with that model, and
  `search`;
- `steps`: SimCSE in batches of 8, scored ten times;
- `batch`: ConSERT on 16,384 sentences, with and without `--chunk-size`, on one thread.

The sentences are beginnings and ends of the bundled ones, joined at random, all different. Prints a
Markdown table; the memory is the most that a process held, files that are mapped into it included.
"""

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from machine import processor
from rounds import table

from isotune.bundled import BUNDLED_DATA, BUNDLED_MODEL

HEAD = 5  # words of a beginning
STEPS = (100, 1_000, 10_000)
BATCHES = ((256, None), (2_048, None), (256, 64), (2_048, 64), (16_384, 64))
"""The sentences of a step, and of a pass."""

BATCHED = 16_384  # sentences of a run
QUIET = ["--dev", "none", "--tasks", "stsb-open"]


def main() -> None:
    """Measures each command at each size, smallest first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "kinds", nargs="*", choices=["sentences", "steps", "batch", []], metavar="KIND"
    )
    parser.add_argument("--counts", type=int, nargs="+", default=[50_000, 500_000, 5_000_000])
    parser.add_argument(
        "--folder", type=Path, help="where to work; unset: the system's temporary folder"
    )
    options = parser.parse_args()
    rows = []
    for kind in options.kinds or ("sentences", "steps", "batch"):
        with TemporaryDirectory(dir=options.folder) as folder:
            for size, words in commands(kind, sorted(options.counts), Path(folder)):
                seconds, cpu, memory = measure(words, Path(folder, "log"))
                rows.append([words[0], size, f"{seconds:,.0f}", f"{cpu:,.0f}", f"{memory:,.0f}"])
                print(*rows[-1], sep=", ", flush=True)
    print(f"\n{processor()}\n")
    print(table(["command", "size", "seconds", "processor seconds", "peak memory, MB"], rows))


def commands(kind: str, counts: list[int], folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The size and the words of each command of a kind; what it reads is written before."""
    text = str(folder / "text.txt")
    if kind == "sentences":
        for count in counts:
            write_text(Path(text), count)
            size, out = f"{count:,} sentences", str(folder / str(count))
            yield size, ["train", text, "--recipe", "consert-sif", "--out", f"{out}-run"]
            yield size, ["encode", BUNDLED_MODEL, text, "--out", f"{out}.npy"]
            yield size, ["index", BUNDLED_MODEL, text, "--out", f"{out}-index"]
            yield size, ["search", f"{out}-index", "a man plays a guitar"]
        return
    write_text(Path(text), BATCHED)
    if kind == "steps":
        for steps in STEPS:
            flags = [
                "--method",
                "simcse",
                "--batch-size",
                "8",
                "--steps",
                str(steps),
                "--eval-every",
                str(steps // 10),
            ]
            yield (
                f"{steps:,} steps",
                ["train", text, *flags, *QUIET, "--out", str(folder / str(steps))],
            )
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    for batch, chunk in BATCHES:
        flags = [
            "--method",
            "consert",
            "--batch-size",
            str(batch),
            "--steps",
            str(BATCHED // batch),
        ]
        flags += ["--precision", "float32", *(["--chunk-size", str(chunk)] if chunk else [])]
        size = f"batches of {batch:,}{f', {chunk} in a pass' if chunk else ''}"
        yield size, ["train", text, *flags, *QUIET, "--out", str(folder / f"{batch}-{chunk}")]


def write_text(path: Path, count: int) -> None:
    """Writes so many different sentences."""
    words = [
        line.split()
        for line in (BUNDLED_DATA / "stsb-open" / "train.txt").read_text("utf-8").splitlines()
    ]
    heads = sorted({" ".join(line[:HEAD]) for line in words})
    tails = sorted({" ".join(line[HEAD:]) for line in words})
    pairs = random.Random(0).sample(range(len(heads) * len(tails)), count)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(
            f"{heads[pair // len(tails)]} {tails[pair % len(tails)]}\n" for pair in pairs
        )


def measure(words: list[str], log: Path) -> tuple[float, float, float]:
    """Runs a command; returns its seconds, processor seconds and peak memory in megabytes."""
    start = time.monotonic()
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "isotune", *words], stdout=file, stderr=file
        )
        _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"isotune {' '.join(words)} failed: {log.read_text()}")
    return time.monotonic() - start, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    main()

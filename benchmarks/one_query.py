"""Measures how long one question takes, beside 0, 1 and 3 busy processes.

    python benchmarks/one_query.py MODEL [--rounds 3] [--calls 60]

MODEL is the folder of an encoder. The contenders are `encoder.encode([question])` of isotune, the
same after `isotune.tune_process()`, and sentence-transformers, which must be installed beside
isotune. Each is measured in a process that has nothing else to do, one after the other, and each
round begins with another contender. The table has the median milliseconds of the calls of each
round, and in parentheses what 90 % of the calls took at most. A busy process computes in Python
without end. Nothing else should run on the machine. Linux only.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from machine import processor
from rounds import table

QUESTION = "How do I reset my password?"
CONTENDERS = ("isotune", "isotune, tune_process()", "sentence-transformers")
NEIGHBOURS = (0, 1, 3)
WARM_UP = 5
BUSY = [sys.executable, "-c", "while True: pass"]


def measure(contender: str, model: Path, calls: int) -> None:
    """Prints the median and the 90 % quantile of the milliseconds of a call."""
    if contender == "sentence-transformers":
        from sentence_transformers import SentenceTransformer

        encoder = SentenceTransformer(str(model), device="cpu")
    else:
        import isotune

        if contender.endswith("tune_process()"):
            isotune.tune_process()
        encoder = isotune.Encoder.load(model, precision="float32")
    for _ in range(WARM_UP):
        encoder.encode([QUESTION])
    milliseconds = []
    for _ in range(calls):
        start = time.perf_counter()
        encoder.encode([QUESTION])
        milliseconds.append(1000 * (time.perf_counter() - start))
    milliseconds.sort()
    print(milliseconds[calls // 2], milliseconds[int(0.9 * calls)])


def measured(contender: str, model: Path, calls: int) -> str:
    """What `measure` prints in a new process, as a cell of the table."""
    command = [sys.executable, __file__, str(model), "--calls", f"{calls}", "--contender"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    run = subprocess.run(
        [*command, contender], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    middle, most = map(float, run.stdout.splitlines()[-1].split())
    return f"{middle:.1f} ({most:.0f})"


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keeps so many processes busy meanwhile."""
    processes = [subprocess.Popen(BUSY) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main() -> None:
    """Measures all contenders in turns, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path, help="the folder of an encoder")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=60, help="the calls of a round")
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contender:
        measure(options.contender, options.model, options.calls)
        return
    rows = []
    for neighbours in NEIGHBOURS:
        cells: dict[str, list[str]] = {contender: [] for contender in CONTENDERS}
        with busy_processes(neighbours):
            for number in range(options.rounds):
                first = number % len(CONTENDERS)
                for contender in CONTENDERS[first:] + CONTENDERS[:first]:
                    cell = measured(contender, options.model, options.calls)
                    cells[contender].append(cell)
        for contender, milliseconds in cells.items():
            rows.append((neighbours, contender, ", ".join(milliseconds)))
    print(f"- {processor()}\n")
    print(table(("busy processes", "encoded by", "milliseconds"), rows))


if __name__ == "__main__":
    main()

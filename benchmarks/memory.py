"""Measures peak memory and time of a training step by batch size, with and without chunks (the gradient cache).

    python benchmarks/memory.py [--model bert-tiny] [--method consert] [--batch-sizes 256 2048 16384] [--chunk-size 64]

Each line is measured in a fresh process with one thread, on the bundled text. The time is processor time. A batch that
would not fit into the free memory is not run; its line has an estimate from the batch before. Prints a Markdown table.
"""

import argparse
import json
import sys
import time
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from fresh_process import in_fresh_process, peak_memory
from machine import processor


class Measured(NamedTuple):
    """The memory of a process before the first step and at its peak, in megabytes, and processor seconds per step."""

    start: float
    peak: float
    seconds: float


def main() -> None:
    """Prints a line for each batch size, without and with chunks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bert-tiny")
    parser.add_argument("--method", default="consert")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[256, 2048, 16384])
    parser.add_argument("--chunk-size", type=int, default=64)
    parser.add_argument("--precision", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--one", help=argparse.SUPPRESS)  # what a fresh process measures
    options = parser.parse_args()
    if options.one:
        batch_size, chunk_size = json.loads(options.one)
        print(json.dumps(measure(options.model, options.method, batch_size, chunk_size, options.precision)))
        return

    print(f"{options.method}, {options.model}, {options.precision}, one thread; {processor()}\n")
    print("| batch size | chunk size | peak memory, MB | peak in the steps, MB | s a step | sentences/s |")
    print("|---|---|---|---|---|---|")
    for chunk_size in (None, options.chunk_size):
        estimate = 0.0
        for batch_size in options.batch_sizes:
            line = f"| {batch_size:,} | {chunk_size or '-'} |"
            if chunk_size is None and estimate * batch_size > available():
                print(f"{line} about {estimate * batch_size:,.0f}, not run | | | |", flush=True)
                continue
            result = Measured(*in_fresh_process(sys.argv, [batch_size, chunk_size]))
            steps_memory = result.peak - result.start
            estimate = steps_memory / batch_size
            cells = f"{result.peak:,.0f} | {steps_memory:,.0f} | {result.seconds:.2f}"
            print(f"{line} {cells} | {batch_size / result.seconds:.0f} |", flush=True)


def measure(model: str, method: str, batch_size: int, chunk_size: int | None, precision: str) -> Measured:
    """Makes some training steps in this process."""
    from steps import stepper

    from isotune import tune_process
    from isotune.bundled import bundled_data

    tune_process()
    text = (bundled_data() / "stsb-open" / "train.txt").read_text("utf-8").splitlines()
    sentences = list(islice(cycle(text), batch_size))
    training = {"batch_size": batch_size, "chunk_size": chunk_size, "precision": precision}
    with stepper(model, method, {}, training, sentences) as steps:
        start, seconds = peak_memory(), []
        for step in range(1 + 2048 // batch_size):
            began = time.process_time()
            steps.update(step)
            seconds.append(time.process_time() - began)
    return Measured(start, peak_memory(), min(seconds))


def available() -> float:
    """The free memory of this machine, in megabytes."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")) / 1e6


if __name__ == "__main__":
    main()

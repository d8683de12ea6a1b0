"""The processor time of a training step by the number of workers, on however few cores.

    python benchmarks/workers.py [--model all-minilm] [--batches 64 512] [--precisions float32 bfloat16] [--rounds 5]

A step is one of SimCSE: a batch of STS-B's sentences (or of the bundled text), each twice, with dropout 0.1. Workers
are threads, of which there may be more than cores: what a step costs in all is seen on any machine, how fast it is
is not. Prints a Markdown table of the median seconds, with the loss of the last step in brackets.
"""

import argparse
import os
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import torch
from machine import processor
from steps import stepper
from trainers import MAX_LENGTH
from training import DROPOUT, sentences

from isotune import tune_process

COUNTS = (1, 2, 4, 8, 16)


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="all-minilm")
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    tune_process()
    print(f"{processor()}\n\n| precision | batch | {' | '.join(f'{count} workers' for count in COUNTS)} |")
    print(f"|---|---|{'---|' * len(COUNTS)}")
    model = Path(os.environ["ISOTUNE_MODELS"]) / options.model
    for precision in options.precisions:
        for batch in options.batches:
            cells = [
                f"{seconds:.2f} ({loss:.5f})" for seconds, loss in by_workers(model, precision, batch, options.rounds)
            ]
            print(f"| {precision} | {batch} | {' | '.join(cells)} |", flush=True)


def by_workers(model: Path, precision: str, batch: int, rounds: int) -> list[tuple[float, float]]:
    """The median processor seconds of a step, and the last loss, for each number of workers, in turns."""
    options = {"batch_size": batch, "precision": precision, "max_length": MAX_LENGTH, "model_dropout": DROPOUT}
    texts = sentences(batch * (rounds + 1))
    seconds: list[list[float]] = [[] for _ in COUNTS]
    with ExitStack() as stack:
        steppers = []
        for count in COUNTS:
            torch.set_num_threads(count)
            steppers.append(stack.enter_context(stepper(model, "simcse", {"projection": False}, options, texts)))
        for number in range(rounds + 1):  # the first warms up
            losses = []
            for count, steps, taken in zip(COUNTS, steppers, seconds, strict=True):
                torch.set_num_threads(count)
                start = time.process_time()
                losses.append(steps.update(number).loss.item())
                taken.append(time.process_time() - start)
    return [(median(taken[1:]), loss) for taken, loss in zip(seconds, losses, strict=True)]


if __name__ == "__main__":
    main()

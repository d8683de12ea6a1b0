"""The training tables: the speed of isotune and sentence-transformers, and the losses and scores that both reach."""

import random
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean, median
from typing import Any

from encoding import scored_pairs
from machine import Noise
from rounds import Timing, in_turn, seconds, speedup, spread
from scipy.stats import spearmanr
from worker import Worker

BATCH = 64
DROPOUT = 0.1
LEARNED_STEPS, DEV_PAIRS = 40, 500


def libraries(device: str = "cpu") -> list[tuple[str, str]]:
    """The libraries and the precisions that a kind of device has instructions for."""
    from isotune.kernels.precision import has_bfloat16

    precisions = ["float32", "bfloat16"] if has_bfloat16(device) else ["float32"]
    return [(library, precision) for library in ("sentence-transformers", "isotune") for precision in precisions]


def sentences(count: int) -> list[str]:
    """`count` of STS-B's training sentences, or of the bundled ones, shuffled and repeated as often as needed."""
    from isotune.data import Sentence, read
    from isotune.errors import InputError

    try:
        rows = list(read("stsb:train", Sentence))
    except InputError:
        rows = list(read("stsb-open:train", Sentence))
    texts = [row.sentence for row in rows]
    random.Random(0).shuffle(texts)
    return list(islice((text for _ in range(-(-count // len(texts))) for text in texts), count))


def speed(model: Path, steps: int, threads: int, rounds: int, noise: Noise, log: Path) -> str:
    """The table of training speed for one model, in Markdown. A round is `steps` steps of 64 sentences, each twice."""
    texts = sentences(BATCH * (steps * (rounds + 1) + 1))
    options = {"model": str(model), "threads": threads, "texts": texts, "batch": BATCH, "dropout": DROPOUT}
    workers = {}
    try:
        for contender, precision in libraries():
            worker = workers[contender, precision] = Worker(log)
            worker.tell("train", contender=contender, precision=precision, timed=True, **options)
        runs = {key: partial(_steps, worker, steps) for key, worker in workers.items()}
        rounds_of = {key: seconds(timings, threads) for key, timings in in_turn(runs, rounds, noise).items()}
    finally:
        for worker in workers.values():
            worker.close()
    unit = "processor second" if threads == 1 else "second"
    bases = {key: times for key, times in rounds_of.items() if key[0] == "sentence-transformers"}
    ratios = " | ".join(f"speed-up against {library} in {precision}" for library, precision in bases)
    table = [
        f"| library | precision | sentences a {unit} | {ratios} | spread |",
        "|---|---|---|" + "---|" * len(bases) + "---|",
    ]
    for (contender, precision), times in rounds_of.items():
        noise.spreads.append(spread(times))
        cells = " | ".join(f"{speedup(base, times):.2f}" for base in bases.values())
        table.append(
            f"| {contender} | {precision} | {BATCH * steps / median(times):,.0f} | {cells} | {spread(times):.0%} |"
        )
    return "\n".join(table)


def learned(model: Path, log: Path, device: str = "cpu") -> str:
    """The table of losses, and of Spearman after training, for one model, in Markdown.

    Both libraries train on the same rows in the same batches, without dropout; isotune where ISOTUNE_DEVICE says.
    """
    texts = sentences(BATCH * LEARNED_STEPS)
    dev, scores = scored_pairs(DEV_PAIRS)
    half = len(dev) // 2
    options = {"model": str(model), "threads": 1, "batch": BATCH, "dropout": 0.0, "timed": False}
    options["pairs"] = list(zip(dev[:half], dev[half:], strict=True))
    results: dict[tuple[str, str], dict[str, Any]] = {}
    keys, in_order = libraries(device), texts
    for contender, precision in reversed(keys):
        worker, place = Worker(log), {} if contender == "isotune" else {"device": device}
        rows = texts if contender == "isotune" else in_order
        result = worker.ask("train", contender=contender, precision=precision, texts=rows, **options, **place)
        results[contender, precision] = result
        worker.close()
        if "order" in result:
            # isotune trains first and shuffles the rows; sentence-transformers gets them in that order.
            in_order = [texts[i] for numbers in result["order"] for i in numbers]
    base = results[keys[0]]["losses"]
    shown = range(0, LEARNED_STEPS, LEARNED_STEPS // 4)
    table = [
        f"| library | precision | {' | '.join(f'loss {step + 1}' for step in shown)} | mean difference | Spearman |",
        "|---|---|" + "---|" * (len(shown) + 2),
    ]
    for key in keys:
        losses = results[key]["losses"]
        difference = fmean(abs(a - b) for a, b in zip(losses, base, strict=True))
        cells = " | ".join(f"{losses[step]:.4f}" for step in shown)
        spearman = spearmanr(results[key]["cosines"], scores).statistic
        table.append(f"| {key[0]} | {key[1]} | {cells} | {difference:.5f} | {100 * spearman:.2f} |")
    return "\n".join(table)


def _steps(worker: Worker, count: int) -> Timing:
    """Lets a waiting run make `count` more steps."""
    return Timing(**worker.ask("steps", count=count))

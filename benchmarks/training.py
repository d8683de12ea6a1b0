"""The tables of training: isotune and sentence-transformers, some steps of each in turn, and what both learn."""

from __future__ import annotations

import random
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean, median

from encoding import scored_pairs
from machine import Noise
from rounds import Took, in_turn, ratio, seconds, spread
from scipy.stats import spearmanr
from worker import Worker

BATCH = 64
DROPOUT = 0.1
CONTENDERS = [
    ("sentence-transformers", "float32"),
    ("sentence-transformers", "bfloat16"),
    ("isotune", "float32"),
    ("isotune", "bfloat16"),
]
LEARNED_STEPS, DEV_PAIRS = 40, 500


def sentences(count: int) -> list[str]:
    """So many of STS-B's training sentences, or of those in the package."""
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
    """One model's table, in Markdown: `steps` of 64 sentences a round, each seen twice."""
    texts = sentences(BATCH * (steps * (rounds + 1) + 1))
    options = {"model": str(model), "threads": threads, "texts": texts, "batch": BATCH, "dropout": DROPOUT}
    workers = {}
    try:
        for contender, precision in CONTENDERS:
            worker = workers[contender, precision] = Worker(log)
            worker.tell("train", contender=contender, precision=precision, timed=True, **options)
        runs = {key: partial(_steps, worker, steps) for key, worker in workers.items()}
        took = {key: seconds(found, threads) for key, found in in_turn(runs, rounds, noise).items()}
    finally:
        for worker in workers.values():
            worker.close()
    unit = "processor second" if threads == 1 else "second"
    lines = [
        f"| | | sentences a {unit} | to float32 | to bfloat16 | spread |",
        "|---|---|---|---|---|---|",
    ]
    base, half = took[CONTENDERS[0]], took[CONTENDERS[1]]
    for (contender, precision), own in took.items():
        noise.spreads.append(spread(own))
        lines.append(
            f"| {contender} | {precision} | {BATCH * steps / median(own):,.0f} | **{ratio(base, own):.2f}** "
            f"| {ratio(half, own):.2f} | {spread(own):.0%} |"
        )
    return "\n".join(lines)


def learned(model: Path, log: Path) -> str:
    """What both learn from the same rows in the same batches, without dropout: losses, and Spearman afterwards."""
    texts = sentences(BATCH * LEARNED_STEPS)
    dev, scores = scored_pairs(DEV_PAIRS)
    half = len(dev) // 2
    options = {"model": str(model), "threads": 1, "batch": BATCH, "dropout": 0.0, "timed": False}
    options["pairs"] = list(zip(dev[:half], dev[half:], strict=True))
    found = {}
    for contender, precision in reversed(CONTENDERS):
        worker = Worker(log)
        found[contender, precision] = worker.ask(
            "train", contender=contender, precision=precision, texts=texts, **options
        )
        worker.close()
        if order := found[contender, precision].get("order"):
            # isotune comes first and has an order of its own, which the other one is given.
            in_order = [texts[i] for rows in order for i in rows]
        texts = in_order if len(found) > 1 else texts
    base = found[CONTENDERS[0]]["losses"]
    shown = range(0, LEARNED_STEPS, LEARNED_STEPS // 4)
    lines = [
        f"| | | {' | '.join(f'loss {step + 1}' for step in shown)} | mean difference | Spearman |",
        "|---|---|" + "---|" * (len(shown) + 2),
    ]
    for key in CONTENDERS:
        losses = found[key]["losses"]
        difference = fmean(abs(a - b) for a, b in zip(losses, base, strict=True))
        cells = " | ".join(f"{losses[step]:.4f}" for step in shown)
        spearman = spearmanr(found[key]["cosines"], scores).statistic
        lines.append(f"| {key[0]} | {key[1]} | {cells} | {difference:.5f} | {100 * spearman:.2f} |")
    return "\n".join(lines)


def _steps(worker: Worker, count: int) -> Took:
    """So many more steps of a run that waits."""
    return Took(**worker.ask("steps", count=count))

"""Measures how the time and memory of encoding grow with the number and length of sentences, the batch and the model.

    python benchmarks/growth.py [--most 1000000] [--out docs/growth.png]

Each point is measured in a fresh process with one thread: the processor seconds after loading, and the peak memory. The
models are folders of $ISOTUNE_MODELS; the text is the bundled one, repeated. Prints a Markdown table and draws it.
Takes about 8 minutes on a quiet machine; the point of a million sentences takes half of that.
"""

import argparse
import json
import os
import time
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from fresh_process import in_fresh_process, peak_memory
from machine import processor

PRECISION = "bfloat16"
LENGTHS = (8, 16, 32, 64, 128, 256, 512)
TOKENS = (128, 512, 1024, 4096, 16384, 65536)
# Millions of weights in the blocks, and the number of sentences to encode.
MODELS = {"bert-tiny": (0.4, 20_000), "mini": (3.2, 8_000), "all-minilm": (10.6, 3_000), "bert-base-ner": (85.1, 500)}
TOTAL = 65_536  # tokens of a point, if the length of sentences or the size of batches changes


class Point(NamedTuple):
    """One measurement.

    Attributes:
        x: the value on the horizontal axis.
        seconds: processor seconds.
        sentences: the number of encoded sentences.
        tokens: the number of their tokens.
        peak: the peak memory in megabytes.
    """

    x: float
    seconds: float
    sentences: int
    tokens: int
    peak: float


def main() -> None:
    """Measures, prints and draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=1_000_000, help="sentences of the largest point")
    parser.add_argument("--out", type=Path, default=Path("docs/growth.png"))
    parser.add_argument("--one", help=argparse.SUPPRESS)  # what a fresh process measures
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(**json.loads(options.one))))
        return
    counts = [count for count in (1_000, 10_000, 100_000, 1_000_000) if count <= options.most]
    axes = {
        "sentences (bert-tiny)": [measured(count, model="bert-tiny", count=count) for count in counts],
        "tokens of a sentence (all-minilm)": [
            measured(length, model="all-minilm", count=TOTAL // length, length=length) for length in LENGTHS
        ],
        "tokens of a batch (all-minilm)": [
            measured(tokens, model="all-minilm", count=TOTAL // 16, length=16, tokens=tokens) for tokens in TOKENS
        ],
        "million weights in the blocks": [
            measured(weights, model=model, count=count) for model, (weights, count) in MODELS.items()
        ],
    }
    print(f"{processor()}\n")
    print("| axis | value | sentences | processor seconds | microseconds a token | peak memory, MB |")
    print("|---|---|---|---|---|---|")
    for axis, points in axes.items():
        for point in points:
            print(
                f"| {axis} | {point.x:,.7g} | {point.sentences:,} | {point.seconds:.2f} "
                f"| {1e6 * point.seconds / point.tokens:.1f} | {point.peak:,.0f} |"
            )
    draw(axes, options.out)


def measured(x: float, **arguments: Any) -> Point:
    """Measures a point in a fresh process."""
    return Point(*in_fresh_process([__file__], {"x": x, **arguments}))


def measure(x: float, model: str, count: int, length: int | None = None, tokens: int | None = None) -> Point:
    """Encodes in this process, from a stream into a file.

    Args:
        x: the value on the horizontal axis.
        model: a folder of $ISOTUNE_MODELS.
        count: the number of sentences.
        length: the tokens of every sentence; None for the sentences of the bundled text.
        tokens: the tokens of a batch; None for the encoder's default.
    """
    import pyarrow as pa

    from isotune import Encoder, tune_process
    from isotune.bundled import bundled_data
    from isotune.encoder import encoder as module
    from isotune.use.bulk.vector_file import write_vectors

    tune_process()
    encoder = Encoder.load(Path(os.environ["ISOTUNE_MODELS"]) / model, precision=PRECISION, device="cpu")
    if tokens:
        module.BATCH_BYTES["cpu"] = tokens * encoder.backbone.dimension * encoder.backbone.model.dtype.itemsize
    encoder.max_length = encoder.backbone.max_tokens or encoder.max_length
    text = (bundled_data() / "stsb-open" / "train.txt").read_text("utf-8").splitlines()
    if length:
        text = [" ".join(["the"] * (length - 2))]  # and two special tokens
    lengths = [len(ids) for ids in encoder.tokenize(text)]
    encoder.encode(text[:64])
    start = time.process_time()
    schema = pa.schema({"sentence": pa.string()})
    parts = encoder.encode_parts(islice(cycle(text), count))
    with TemporaryFile() as file:
        blocks = ((pa.table([part], schema=schema), vectors) for part, vectors in parts)
        write_vectors(file, ".npy", schema, encoder.dimension, blocks)
    seconds = time.process_time() - start
    return Point(x, seconds, count, sum(islice(cycle(lengths), count)), peak_memory())


def draw(axes: dict[str, list[Point]], path: Path) -> None:
    """Draws a column for each axis: time above, memory below."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = {
        "processor ms a token": lambda p: 1e3 * p.seconds / p.tokens,
        "peak memory, MB": lambda p: p.peak,
    }
    figure, plots = pyplot.subplots(2, len(axes), figsize=(13, 5), sharex="col", sharey="row", layout="constrained")
    for column, (axis, points) in enumerate(axes.items()):
        for plot, (name, value) in zip(plots[:, column], rows.items(), strict=True):
            plot.plot([point.x for point in points], [value(point) for point in points], "o-", color="#1f5fa8")
            plot.set_xscale("log")
            plot.grid(alpha=0.3)
            if not column:
                plot.set_ylabel(name)
        plots[0, column].set_yscale("log")
        plots[1, column].set_xlabel(axis)
    plots[1, 0].set_ylim(bottom=0)  # after all points are drawn; all columns share this axis
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    main()

"""Measures where the time of a training step and of encoding goes.

It tells how close both come to the machine's limit.

    python benchmarks/shares.py [--models mini all-minilm bert-base-ner]
        [--precisions float32 bfloat16]

A step is one of SimCSE: 64 sentences of STS-B (or of the bundled text), each twice, with dropout
0.1. A batch is one of encoding. Both run on one thread. The shares are those of torch's profiler,
of the time inside each operation; a step's attention in numpy's products counts as other
operations. The rate is the arithmetic of the linear layers over the whole time. The limit is the
rate of the model's widest product by itself, for the same number of tokens. The models are folders
of $ISOTUNE_MODELS. Prints a Markdown table.
"""

import argparse
import os
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import torch
from machine import processor
from rounds import table
from torch.profiler import ProfilerActivity, profile
from trainers import MAX_LENGTH, Training, isotune
from training import BATCH, DROPOUT, sentences

from isotune import Encoder, tune_process
from isotune.data.packed import pack
from isotune.kernels.cpu.float32 import fast_float32
from isotune.kernels.cpu.prepacked import prepacked

STEPS = 5
GROUPS = {
    "products of linear layers": ("aten::mm", "aten::addmm", "mkldnn::_linear_pointwise"),
    "attention: products and softmax": (
        "aten::bmm",
        "aten::_softmax",
        "aten::_softmax_backward_data",
    ),
    "dropout: random bits": ("aten::random_", "aten::ge"),
    "GELU and layer normalisation": (
        *("aten::gelu", "aten::gelu_backward"),
        *("aten::native_layer_norm", "aten::native_layer_norm_backward"),
    ),
    "copies and changes of type": ("aten::copy_", "aten::cat", "aten::index", "aten::index_select"),
    "embeddings' gradient, AdamW, clipping": (
        *("aten::fill_", "aten::embedding_dense_backward"),
        *("aten::_fused_adamw_", "aten::linalg_vector_norm"),
    ),
}
OTHER = "other small operations, and calling them"


class Spent(NamedTuple):
    """The time of a step or batch."""

    seconds: float  # of the processor, without the profiler
    shares: dict[str, float]  # {group of operations: share of the time}
    rate: float  # FLOP/s of the linear layers over the whole time
    limit: float  # FLOP/s of a product by itself


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=["mini", "all-minilm", "bert-base-ner"])
    parser.add_argument(
        "--precisions", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"]
    )
    options = parser.parse_args()
    tune_process()
    torch.set_num_threads(1)
    columns = {
        f"{name}, {kind}, {precision}": measured(
            Path(os.environ["ISOTUNE_MODELS"]) / name, precision
        )
        for name in options.models
        for kind, measured in (("step", training), ("batch", encoding))
        for precision in options.precisions
    }
    rows = {
        **{
            group: [f"{spent.shares[group]:.0%}" for spent in columns.values()]
            for group in (*GROUPS, OTHER)
        },
        "processor milliseconds": [f"{1e3 * spent.seconds:,.1f}" for spent in columns.values()],
        "GFLOP/s of the linear layers over the whole time": [
            f"{spent.rate / 1e9:,.0f}" for spent in columns.values()
        ],
        "limit: GFLOP/s of a product by itself": [
            f"{spent.limit / 1e9:,.0f}" for spent in columns.values()
        ],
        "share of that limit": [f"{spent.rate / spent.limit:.0%}" for spent in columns.values()],
    }
    print(f"{processor()}\n")
    print(table(["", *columns], ([title, *cells] for title, cells in rows.items())))


def training(model: Path, precision: str) -> Spent:
    """Measures a training step. Its linear layers do three times the arithmetic of encoding."""
    texts = sentences(BATCH * (2 + 2 * STEPS))
    profiler = profile(activities=[ProfilerActivity.CPU])
    moments: list[float] = []

    def gate() -> None:  # before the first step, which warms up, and after each step
        moments.append(time.process_time())
        if len(moments) == 2 + STEPS:
            profiler.start()
        elif len(moments) == 2 + 2 * STEPS:
            profiler.stop()

    isotune(
        gate,
        Training(
            model=str(model),
            precision=precision,
            threads=1,
            texts=texts,
            batch=BATCH,
            dropout=DROPOUT,
        ),
    )
    seconds = median(end - start for start, end in pairwise(moments[1 : 2 + STEPS]))
    encoder = Encoder.load(model, precision="float32", device="cpu")
    tokens = 2 * BATCH * fmean(map(len, encoder.tokenize(texts, MAX_LENGTH)))
    return _spent(seconds, profiler, encoder, precision, tokens, 3)


def encoding(model: Path, precision: str) -> Spent:
    """Measures the encoding of one batch, of the size that `Encoder.encode` makes."""
    encoder = Encoder.load(model, precision=precision, device="cpu")  # type: ignore[arg-type]
    ids = encoder.tokenize(sentences(2000))
    batches = encoder.batches([len(sentence) for sentence in ids])
    batch = pack([ids[i] for i in batches[len(batches) // 2]])
    with torch.no_grad(), prepacked(encoder.backbone):
        seconds = _median(lambda: encoder(batch))
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            for _ in range(STEPS):
                encoder(batch)
    return _spent(seconds, profiler, encoder, precision, len(batch.ids), 1)


def _spent(
    seconds: float, profiler: profile, encoder: Encoder, precision: str, tokens: float, passes: int
) -> Spent:
    times = {event.key: event.self_cpu_time_total for event in profiler.key_averages()}
    total = sum(times.values())
    shares = {
        group: sum(times.get(name, 0.0) for name in names) / total
        for group, names in GROUPS.items()
    }
    blocks = encoder.backbone.model.get_submodule("encoder")
    weights = sum(weight.numel() for weight in blocks.parameters() if weight.ndim > 1)
    rate = passes * 2 * weights * tokens / seconds
    return Spent(
        seconds,
        {**shares, OTHER: 1 - sum(shares.values())},
        rate,
        _limit(encoder, precision, int(tokens)),
    )


@torch.no_grad()
def _limit(encoder: Encoder, precision: str, tokens: int) -> float:
    """FLOP/s of a product by itself: that of the model's widest layer."""
    layer = torch.nn.Linear(encoder.backbone.dimension, 4 * encoder.backbone.dimension)
    layer = layer.to(getattr(torch, precision))
    x = torch.randn(tokens, encoder.backbone.dimension, dtype=layer.weight.dtype)
    with fast_float32(), prepacked(layer):
        seconds = _median(lambda: [layer(x) for _ in range(20)])
    return 20 * 2 * layer.weight.numel() * tokens / seconds


def _median(once: Callable[[], Any]) -> float:
    """The median processor seconds of some calls."""
    once()
    seconds = []
    for _ in range(STEPS):
        start = time.process_time()
        once()
        seconds.append(time.process_time() - start)
    return median(seconds)


if __name__ == "__main__":
    main()

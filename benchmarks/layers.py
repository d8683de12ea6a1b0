"""Measures how the time of encoding follows the highest layer that the pooling reads.

    ISOTUNE_MODELS=DIR python benchmarks/layers.py [--model all-minilm] [--rounds 7]

Encoders with another highest layer encode the bundled test sentences in turns, on one thread. Time is processor time; a
row is the median over the rounds of the ratio to the encoder that reads the last layer.
"""

import argparse
import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

import torch
from machine import Noise
from rounds import Timing, in_turn, seconds, speedup

from isotune.data import read_scored_pairs
from isotune.encoder.encoder import Encoder


def main() -> None:
    """Prints a row for each layer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="all-minilm", help="a folder of $ISOTUNE_MODELS")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder = Path(os.environ["ISOTUNE_MODELS"]) / options.model
    pairs = read_scored_pairs("stsb-open:test")
    sentences = [*pairs.sentence1, *pairs.sentence2]
    blocks = Encoder.load(folder).backbone.layers
    encoders = [Encoder.load(folder, layers=[layer], precision="float32") for layer in range(blocks + 1)]
    timings = in_turn(
        {layer: partial(timed, encoder, sentences) for layer, encoder in enumerate(encoders)}, options.rounds, Noise()
    )
    print("| highest layer | seconds | share of the time of all blocks |\n|---|---|---|")
    whole = seconds(timings[blocks], 1)
    for layer in timings:
        times = seconds(timings[layer], 1)
        print(f"| {layer} | {median(times):.3f} | {speedup(times, whole):.2f} |")


def timed(encoder: Encoder, sentences: Sequence[str]) -> Timing:
    """How long the sentences take."""
    wall, processor = time.perf_counter(), time.process_time()
    encoder.encode(sentences)
    return Timing(time.perf_counter() - wall, time.process_time() - processor)


if __name__ == "__main__":
    main()

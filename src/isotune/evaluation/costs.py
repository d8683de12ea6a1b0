"""What an encoder costs its user: the time of a sentence, and the bytes of weights and vectors."""

import time
from collections.abc import Sequence
from statistics import median

import torch

from isotune.data import read_scored_pairs
from isotune.encoder.encoder import Encoder
from isotune.evaluation.results import EncoderCost

# The sentences that are encoded: the first ones of the bundled pairs.
SENTENCES = "stsb-open:test"
# The first round makes the machine ready.
ROUNDS = 3
# So many sentences are encoded before encoding is timed.
WARMED = 8


def measure_cost(encoder: Encoder) -> EncoderCost:
    """Measures an encoder on the bundled sentences, with one thread of torch; or on its GPU."""
    sentences = read_scored_pairs(SENTENCES).sentence1
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        seconds = [seconds_of_encoding(encoder, sentences) for _ in range(ROUNDS + 1)]
    finally:
        torch.set_num_threads(threads)
    weights = list(encoder.parameters())
    return EncoderCost(
        weights=sum(weight.numel() for weight in weights),
        weight_bytes=sum(weight.numel() * weight.element_size() for weight in weights),
        vector_bytes=encoder.encode(sentences[0]).nbytes,
        sentences_per_second=len(sentences) / median(seconds[1:]),
    )


def seconds_of_encoding(encoder: Encoder, sentences: Sequence[str]) -> float:
    """How long the encoder takes for the sentences, of which it encodes the first ones before.

    The first call is slower.
    """
    encoder.encode(sentences[:WARMED])
    began = time.perf_counter()
    encoder.encode(sentences)
    return time.perf_counter() - began

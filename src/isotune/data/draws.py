"""Random numbers that belong to a sentence, wherever and beside whatever the sentence is encoded.

Augmentations, and dropout on a CPU, draw from a seed of each sentence, and not from a generator
that all sentences share. So a step draws the same numbers however its sentences are cut into
passes, and whoever makes these passes; a pass that is made again draws them again.

The numbers are those of SplitMix64 (Steele, Lea and Flood, 2014, "Fast Splittable Pseudorandom
Number Generators"): a counter, stirred by two multiplications. Number k of a seed follows from k
alone, so all numbers are computed at once.
"""

import numpy as np
import torch
from torch import Tensor

# The constants of SplitMix64, as signed numbers of 64 bits.
STEP = 0x9E3779B97F4A7C15 - 2**64
ROUNDS = ((30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64), (31, 1))


def random_bits(seeds: Tensor, count: int) -> Tensor:
    """The first `count` numbers of 64 random bits of each seed: [...] -> [..., count], int64."""
    return split_seeds(seeds[..., None], torch.arange(count, device=seeds.device))


def ragged_random_bits(seeds: Tensor, counts: Tensor) -> Tensor:
    """The first `counts[i]` numbers of 64 random bits of each seed i, one seed after another.

    int64 [N] -> int64 [M].
    """
    ends = counts.cumsum(0)
    # Number m of the row is number m - (ends - counts) of its seed.
    first = seeds - (ends - counts) * STEP  # [N]
    bits = first.repeat_interleave(counts)  # [M]
    return _stir(bits.add_(torch.arange(1, len(bits) + 1, device=bits.device).mul_(STEP)))


def split_seeds(seeds: Tensor, numbers: Tensor | int) -> Tensor:
    """A new seed from each seed and a number from 0; the two are broadcast."""
    return _stir(seeds + torch.as_tensor(numbers).add(1).mul(STEP))


def _stir(bits: Tensor) -> Tensor:
    """SplitMix64's output from its counters, in place."""
    moved = torch.empty_like(bits)
    for shift, factor in ROUNDS:
        torch.bitwise_right_shift(bits, shift, out=moved)
        # torch shifts copies of the sign in. They are taken away.
        bits.bitwise_xor_(moved.bitwise_and_(2 ** (64 - shift) - 1))
        if factor != 1:
            bits.mul_(factor)
    return bits


def derive_seed(seed: int, purpose: str, *path: int) -> int:
    """A seed that follows from a run's seed, of its own for every purpose and path of numbers."""
    tag = int.from_bytes(purpose.encode(), "little")
    (state,) = np.random.SeedSequence([seed, tag], spawn_key=path).generate_state(1, np.uint64)
    return int(state >> 1)

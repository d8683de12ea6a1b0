"""How well few judged pairs calibrate an encoder: the expected calibration error on pairs that are held back.

    ISOTUNE_DATA=... python benchmarks/calibration.py ENCODER

A draw takes pairs of a dataset at random, fits the curve of `isotune.calibrate` to them, and compares the probabilities
of 3,000 other pairs with their shares of the same meaning, in ten bins of equal width: the error is the mean distance
of a bin's mean probability from its mean share, weighted by the bin's pairs (Guo et al. 2017). The pairs held back are
the same for all draws. A dataset with fewer pairs holds back all but 1,000.
"""

import sys

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from isotune import Encoder, LabelledPair, ScoredPair
from isotune.data import read
from isotune.evaluation.calibration import fit

Floats = NDArray[np.float64]

COUNTS = (50, 100, 200, 1000)
DRAWS = 100
HELD_BACK = 3000
BINS = 10


def shares(source: str) -> tuple[list[tuple[str, str]], Floats]:
    """The pairs of a dataset, and the shares in which they mean the same."""
    if source.startswith("stsb"):
        scored = list(read(source, ScoredPair))
        return [row[:2] for row in scored], np.array([row.score for row in scored]) / 5
    rows = list(read(source, LabelledPair))
    return [row[:2] for row in rows], np.array([float(row.label == "1") for row in rows])


def calibration_error(probabilities: Floats, same: Floats) -> float:
    """The expected calibration error of N probabilities [N] for shares [N]."""
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    return sum(abs((probabilities - same)[bins == number].sum()) for number in range(BINS)) / len(same)


def main(path: str) -> None:
    """Prints a table: of each dataset and number of pairs the error, and the half width of the threshold's interval."""
    encoder = Encoder.load(path)
    print("| data | pairs | error, mean | error, 95 % of draws | threshold, mean | its deviation | deviation stated |")
    for source in ("qqp-10k:dev", "mrpc:train", "stsb:train"):
        generator = np.random.default_rng(0)
        pairs, same = shares(source)
        chosen = generator.permutation(len(pairs))[: HELD_BACK + max(COUNTS)]
        texts = [pairs[i][side] for side in (0, 1) for i in chosen]
        first, second = np.split(encoder.encode(texts, normalize=True).astype(np.float64), 2)
        cosines, same = (first * second).sum(1), same[chosen]
        held = np.arange(len(chosen) - max(COUNTS))
        rest = np.arange(len(held), len(chosen))
        for count in COUNTS:
            results = []
            for _ in range(DRAWS if count < len(rest) else 1):
                drawn = generator.choice(rest, count, replace=False)
                slope, threshold, deviation = fit(cosines[drawn], same[drawn])
                error = calibration_error(expit(slope * (cosines[held] - threshold)), same[held])
                results.append((error, threshold, deviation))
            errors, thresholds, deviations = np.array(results).T
            columns = errors.mean(), np.quantile(errors, 0.95), thresholds.mean(), thresholds.std(), deviations.mean()
            print(f"| {source} | {count:,} |", " | ".join(f"{value:.3f}" for value in columns), "|", flush=True)


main(sys.argv[1])

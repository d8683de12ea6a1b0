"""How many scored pairs it takes to choose between an encoder and changed ones: a simulation with gold scores.

    ISOTUNE_DATA=... python benchmarks/labels.py ENCODER

For each domain of domains.py that is for development, the candidates are the encoder as it is, and the encoder with its
vectors centred or whitened on the domain's text, in several strengths: some are better than the start, some are worse.
A draw takes pairs as `isotune label` picks them (or at random) out of the domain's scored pairs, and chooses the
candidate with the highest Spearman correlation on them, or that candidate only if its gain is sure. The loss is the
score of the chosen one on all pairs, below that of the best candidate.
"""

import sys
from collections.abc import Callable

import numpy as np
from domains import DEVELOPMENT, read_domain
from numpy.typing import NDArray
from scipy.stats import spearmanr

from isotune import Encoder
from isotune.evaluation.intervals import CorrelatedPairs, interval, resampled_correlations
from isotune.evaluation.labelling.choose import choose

Floats = NDArray[np.float64]

COUNTS = (20, 50, 100, 200)
DRAWS = 20
RESAMPLES = 100
TEXT = 500  # sentences that the centre and the covariance are of
CENTRED = (0.5, 1.0)  # shares of the mean that are taken off
WHITENED = (0.1, 0.2, 0.4)  # exponents of the covariance, with its mean variance added as shrinkage; 0.5 whitens
KEEP, PICK, SURE = "start", "best on the labels", "best, if its gain's 95 % interval is above 0"


def unit(vectors: Floats) -> Floats:
    """Vectors scaled to length 1."""
    scaled: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


def candidates(text: Floats) -> dict[str, Callable[[Floats], Floats]]:
    """What changes an encoder's vectors [n, d], by name; fitted on the vectors of a text [m, d]."""
    mean = text.mean(0)
    variances, directions = np.linalg.eigh(np.cov(text.T))
    shrunk = variances.clip(0) + variances.mean()
    changes: dict[str, Callable[[Floats], Floats]] = {KEEP: lambda x: x}
    for share in CENTRED:
        changes[f"centred by {share}"] = lambda x, share=share: x - share * mean
    for power in WHITENED:
        changes[f"whitened by {power}"] = lambda x, power=power: (x - mean) @ directions * shrunk**-power
    return changes


def domain_cosines(encoder: Encoder, name: str) -> tuple[list[str], Floats, Floats, NDArray[np.int64]]:
    """Of a domain: the candidates' names, the cosines [C, N] of the pairs, the gold scores [N], the ends [N, 2]."""
    text, pairs = read_domain(DEVELOPMENT[name])
    number = {s: i for i, s in enumerate(dict.fromkeys(s for first, second, _ in pairs for s in (first, second)))}
    vectors = unit(encoder.encode(list(number)).astype(np.float64))
    changes = candidates(unit(encoder.encode(text[:TEXT]).astype(np.float64)))
    ends = np.array([(number[first], number[second]) for first, second, _ in pairs])
    moved = [unit(change(vectors)) for change in changes.values()]
    cosines = np.stack([np.einsum("nd,nd->n", x[ends[:, 0]], x[ends[:, 1]]) for x in moved])
    return list(changes), cosines, np.array([score for *_, score in pairs]), ends


def score(gold: Floats, cosines: Floats) -> float:
    """Spearman x 100; 0 if one side is constant."""
    return 100 * float(spearmanr(gold, cosines).statistic) if np.ptp(gold) and np.ptp(cosines) else 0.0


def surely_better(gold: Floats, start: Floats, other: Floats) -> bool:
    """Whether the interval of the gain, by the bootstrap over pairs, is above 0."""
    parts = [[CorrelatedPairs(gold, of, 1.0)] for of in (start, other)]
    old, new = (resampled_correlations(part, "spearman", RESAMPLES) for part in parts)
    return interval(new - old)[0] > 0


def losses(cosines: Floats, gold: Floats, ends: NDArray[np.int64], count: int, picked: bool) -> dict[str, list[float]]:
    """The losses of both rules over all draws of `count` pairs."""
    full = np.array([score(gold, of) for of in cosines])
    result: dict[str, list[float]] = {PICK: [], SURE: []}
    for draw in range(DRAWS):
        random = np.random.default_rng(draw)
        # `choose` takes no sentence twice. So that its order differs between draws, each sees half of the pairs.
        pool = random.permutation(len(gold))[: max(count, len(gold) // 2)]
        rows = pool[choose(cosines[:, pool], ends[pool], count, random)] if picked else pool[:count]
        seen = [score(gold[rows], of[rows]) for of in cosines]
        best = int(np.argmax(seen))  # the start comes first, so it wins ties
        result[PICK].append(full.max() - full[best])
        sure = best and surely_better(gold[rows], cosines[0, rows], cosines[best, rows])
        result[SURE].append(full.max() - full[best if sure else 0])
    return result


def main(model: str) -> None:
    """Prints the candidates' scores for each domain, and the losses over all domains."""
    encoder = Encoder.load(model, precision="bfloat16")
    of_rules: dict[tuple[int, bool, str], list[float]] = {}
    kept: list[float] = []
    for name in DEVELOPMENT:
        names, cosines, gold, ends = domain_cosines(encoder, name)
        full = [score(gold, of) for of in cosines]
        kept.append(max(full) - full[0])
        print(
            f"{name}: " + ", ".join(f"{title} {value:.2f}" for title, value in zip(names, full, strict=True)),
            flush=True,
        )
        for count in COUNTS:
            for picked in (True, False):
                if count <= len(gold) // 2:
                    for rule, values in losses(cosines, gold, ends, count, picked).items():
                        of_rules.setdefault((count, picked, rule), []).append(float(np.mean(values)))
    print(f"\nkeeping the start loses {np.mean(kept):.2f} on average, and {max(kept):.2f} in the worst domain\n")
    print("| pairs | chosen by | rule | mean loss | worst domain | domains |\n|---|---|---|---|---|---|")
    for (count, picked, rule), values in of_rules.items():
        by = "`isotune label`" if picked else "chance"
        print(f"| {count} | {by} | {rule} | {np.mean(values):.2f} | {max(values):.2f} | {len(values)} |")


if __name__ == "__main__":
    main(sys.argv[1])

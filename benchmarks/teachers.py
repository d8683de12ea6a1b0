"""Whether similarities relative to a domain's text rank its pairs better than the cosine: candidates for a teacher.

    ISOTUNE_DATA=... python benchmarks/teachers.py ENCODER

prints, for the seven domains for development in domains.py, the change of Spearman x 100 on the scored pairs where the
cosine is replaced by

- csls k: twice the cosine, minus the mean cosines of both sentences with their k nearest sentences of the text;
- rank w: the cosine, and with weight w the correlation of the ranks in which both sentences see the text
  (RankEncoder, Seonwoo et al. 2023);
- knn w: the cosine of the vectors after each was moved towards its five nearest sentences, weighted by w.
"""

import sys

import numpy as np
from domains import DEVELOPMENT, read_domain
from labels import Floats, score, unit
from scipy.stats import rankdata, zscore

from isotune import Encoder

TEXT = 500  # sentences that a sentence is compared with


def similarities(first: Floats, second: Floats, text: Floats) -> dict[str, Floats]:
    """The similarities [N] of pairs of unit vectors [N, d], by name; the cosine comes first."""
    cosines = np.einsum("nd,nd->n", first, second)
    sides = [(side, side @ text.T) for side in (first, second)]  # [N, d], [N, T]
    found: dict[str, Floats] = {"cosine": cosines}
    for k in (5, 50):
        found[f"csls {k}"] = 2 * cosines - sum(np.sort(seen, 1)[:, -k:].mean(1) for _, seen in sides)
    ranks = [unit(rankdata(seen, axis=1) - (len(text) + 1) / 2) for _, seen in sides]
    for weight in (0.25, 0.5, 1.0):
        found[f"rank {weight}"] = (1 - weight) * zscore(cosines) + weight * zscore(np.einsum("nt,nt->n", *ranks))
    for weight in (0.3, 0.6):
        moved = [unit(side + weight * text[np.argsort(-seen, 1)[:, :5]].mean(1)) for side, seen in sides]
        found[f"knn {weight}"] = np.einsum("nd,nd->n", *moved)
    return found


def main(model: str) -> None:
    """Prints the table."""
    encoder = Encoder.load(model, precision="bfloat16")
    changes: dict[str, list[float]] = {}
    for domain in DEVELOPMENT.values():
        text, pairs = read_domain(domain)
        first, second, gold = (list(column) for column in zip(*pairs, strict=True))
        vectors = [unit(encoder.encode(side).astype(np.float64)) for side in (first, second, text[:TEXT])]
        found = {name: score(np.array(gold), of) for name, of in similarities(*vectors).items()}
        for name, value in found.items():
            changes.setdefault(name, []).append(value - found["cosine"])
    print(f"| | {' | '.join(DEVELOPMENT)} | mean |\n|{'---|' * (len(DEVELOPMENT) + 2)}")
    for name, values in changes.items():
        print(f"| {name} | {' | '.join(f'{value:+.2f}' for value in (*values, np.mean(values)))} |")


if __name__ == "__main__":
    main(sys.argv[1])

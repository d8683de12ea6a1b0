"""The supervised losses, number by number as the papers write them."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tests.reference.losses import sim


def pair_cross_entropy(
    first: Tensor,
    second: Tensor,
    weight: Tensor,
    bias: Tensor,
    labels: Sequence[int],
    max_square: bool,
) -> Tensor:
    """ConSERT, equation 2: CrossEntropy(W f + b, y), averaged.

    f has a fourth part with `max_square`.
    """
    logits = []
    for r1, r2 in zip(first, second, strict=True):
        f = [*r1, *r2, *(abs(a - b) for a, b in zip(r1, r2, strict=True))]
        if max_square:
            f += [max(a, b) ** 2 for a, b in zip(r1, r2, strict=True)]
        logits.append(
            [
                sum(w * x for w, x in zip(row, f, strict=True)) + b
                for row, b in zip(weight, bias, strict=True)
            ]
        )
    return cross_entropy(logits, labels)


def cross_entropy(logits: Sequence[Sequence[Tensor]] | Tensor, labels: Sequence[int]) -> Tensor:
    """-log of the right class's softmax, averaged."""
    total = torch.zeros((), dtype=torch.float64)
    for row, y in zip(logits, labels, strict=True):
        total = total - torch.log(torch.exp(row[y]) / sum(torch.exp(logit) for logit in row))
    return total / len(labels)


def hinged(cosine: Tensor, hinge: float) -> Tensor:
    return cosine if cosine >= hinge else torch.tensor(hinge, dtype=torch.float64)


def paraphrase(first: Tensor, second: Tensor, signs: Sequence[int], hinge: float) -> Tensor:
    """BERT-CF, section 4.3: 1 - y for paraphrases (+1), y - h for others (-1), averaged.

    y is max(sim, h).
    """
    total = torch.zeros((), dtype=torch.float64)
    for a, b, sign in zip(first, second, signs, strict=True):
        y = hinged(sim(a, b), hinge)
        total = total + (1 - y if sign == 1 else y - hinge)
    return total / len(signs)


def similarity(first: Tensor, second: Tensor, scores: Sequence[float], hinge: float) -> Tensor:
    """BERT-CF, section 4.3: mean squared error of max(sim, h) from the score scaled to [h, 1]."""
    total = torch.zeros((), dtype=torch.float64)
    for a, b, score in zip(first, second, scores, strict=True):
        y = hinged(sim(a, b), hinge)
        total = total + (y - (hinge + (1 - hinge) * score / 5)) ** 2
    return total / len(scores)


def cosent(first: Tensor, second: Tensor, scores: Sequence[float], scale: float) -> Tensor:
    """CoSENT (Su, 2022): log(1 + sum over sim(i) > sim(j) of e^(lambda (cos_j - cos_i)))."""
    total = torch.ones((), dtype=torch.float64)
    for a, b, higher in zip(first, second, scores, strict=True):
        for c, d, lower in zip(first, second, scores, strict=True):
            if higher > lower:
                total = total + torch.exp(scale * (sim(c, d) - sim(a, b)))
    return torch.log(total)


def f1(targets: Sequence[int], predictions: Sequence[int]) -> float:
    """Of class 1: the harmonic mean of precision and recall."""
    hits = sum(t == p == 1 for t, p in zip(targets, predictions, strict=True))
    return 2 * hits / (sum(predictions) + sum(targets))


def matthews(targets: Sequence[int], predictions: Sequence[int]) -> float:
    """Of two classes, from the four counts."""
    pairs = list(zip(targets, predictions, strict=True))
    tp, tn, fp, fn = (pairs.count(pair) for pair in ((1, 1), (0, 0), (0, 1), (1, 0)))
    return (tp * tn - fp * fn) / math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))

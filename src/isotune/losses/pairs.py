"""What is computed of the vectors of a pair: losses of the cosine, the input of a classifier."""

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, relu

from isotune.losses.similarities import in_float32


@in_float32
def bidirectional_margin(
    anchors: Tensor, positives: Tensor, soft_negatives: Tensor, alpha: float, beta: float
) -> Tensor:
    """The mean over rows of relu(D + alpha) + relu(-D - beta).

    D is cos(anchor, negative) - cos(anchor, positive). Row i of `positives` and `soft_negatives`
    belongs to row i of `anchors`; all are [N, d]. The soft negative's cosine should be lower than
    the positive's by at least `alpha` and at most `beta`. If all vectors are equal: alpha. SNCSE's
    loss; equation 2 of the small-BERT paper (section 3, after Wang et al., 2022).
    """
    negative_cosines = cosine_similarity(anchors, soft_negatives)  # [N]
    difference = negative_cosines - cosine_similarity(anchors, positives)  # [N]
    return (relu(difference + alpha) + relu(-difference - beta)).mean()


@in_float32
def cosent(first: Tensor, second: Tensor, scores: Tensor, scale: float) -> Tensor:
    """log(1 + the sum of exp(scale (cos_j - cos_i)) over all i, j of which i has the higher score).

    Row i of `first` and `second` [N, d] is a pair of sentences, with the score i of [N]. Only the
    order of the scores counts. The loss is 0 if all scores are equal, and log(1 + M) if all cosines
    are and M such i, j are there. CoSENT (Su, 2022). The pairs are sorted by their scores, so the
    sums over j are running sums, and no [N, N] is needed.
    """
    ordered, order = scores.sort()  # [N]
    cosines = scale * cosine_similarity(first, second)[order]  # [N]
    # The log of the sum of exp(scale cos) up to each pair.
    sums = cosines.logcumsumexp(0)  # [N]
    # How many pairs have a lower score.
    lower = torch.searchsorted(ordered, ordered)  # [N]
    terms = (sums[(lower - 1).clamp(min=0)] - cosines).where(lower > 0, -torch.inf)  # [N]
    return torch.cat([terms.new_zeros(1), terms]).logsumexp(0)


@in_float32
def hinged_cosine(first: Tensor, second: Tensor, hinge: float) -> Tensor:
    """The cosine of each of N pairs, at least `hinge`: [N, d], [N, d] -> [N].

    BERT-CF, section 4.3: all pairs with a cosine below the hinge are equally unlike. A clamped
    cosine has no gradient, so a pair below the hinge teaches nothing, even if it should be alike.
    This is what the paper says; its hinge of 0.7 is below nearly all cosines of an untuned BERT
    (its Figure 2).
    """
    return cosine_similarity(first, second, dim=-1).clamp(min=hinge)


@in_float32
def cosine_distance(first: Tensor, second: Tensor) -> Tensor:
    """The mean of 1 - cosine over N pairs of vectors, `first` and `second` [N, d].

    It is half the squared distance of the vectors once they have length 1. LEAF (2025, arXiv
    2509.12539) brings a small encoder near a large one by the distance of their vectors.
    """
    return (1 - cosine_similarity(first, second, dim=-1)).mean()


def cosine_embedding(cosines: Tensor, alike: Tensor, hinge: float) -> Tensor:
    """The mean over pairs of 1 - y if the pair is alike, else of y - h, for hinged cosines y.

    `cosines` [N] come from `hinged_cosine` with the same hinge h; `alike` is [N] bool. The loss is
    between 0 and 1 - h.
    """
    return torch.where(alike, 1 - cosines, cosines - hinge).mean()


def pair_features(first: Tensor, second: Tensor, max_square: bool = False) -> Tensor:
    """Both vectors and their absolute difference, side by side: [N, d], [N, d] -> [N, 3d].

    With `max_square`, the square of the element-wise maximum is added: [N, 4d]. ConSERT, section
    3.3, equation 2 (after SBERT); the authors' scripts add the maximum.
    """
    parts = [first, second, (first - second).abs()]
    if max_square:
        parts.append(torch.maximum(first, second).square())
    return torch.cat(parts, dim=-1)

"""Cosine similarity with a floor under it, and the loss for pairs that are alike or not.

BERT-CF, section 4.3: below the hinge h all pairs are equally unlike, so the similarity is clamped to [h, 1]. A clamped
similarity has no gradient: a pair below the hinge teaches nothing, not even where it should be alike. That is the
paper's, whose h of 0.7 lies below nearly all cosines of an untuned BERT (its Figure 2).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from isotune.losses.precision import in_float32


@in_float32
def hinged_cosine(first: Tensor, second: Tensor, hinge: float) -> Tensor:
    """The cosine of each of N pairs, at least `hinge`: [N, d], [N, d] -> [N]."""
    return cosine_similarity(first, second, dim=-1).clamp(min=hinge)


def cosine_embedding(similarities: Tensor, alike: Tensor, hinge: float) -> Tensor:
    """The mean distance of hinged similarities from where they should be: 1 - y if alike, y - h if not.

    Args:
        similarities: [N], what `hinged_cosine` gives.
        alike: [N] bool.
        hinge: the same as there.

    Returns:
        A scalar between 0 and 1 - hinge.
    """
    return torch.where(alike, 1 - similarities, similarities - hinge).mean()

"""The cosine with a lowest value, and the loss for pairs that are alike or not.

BERT-CF, section 4.3: all pairs with a cosine below the hinge h are equally unlike, so the cosine is clamped to [h, 1].
A clamped cosine has no gradient, so a pair below the hinge teaches nothing, even if it should be alike. This is what
the paper says; its h of 0.7 is below nearly all cosines of an untuned BERT (its Figure 2).
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


def cosine_embedding(cosines: Tensor, alike: Tensor, hinge: float) -> Tensor:
    """The mean over pairs of 1 - y if the pair is alike, and of y - h if it is not, for hinged cosines y.

    `cosines` [N] come from `hinged_cosine` with the same hinge h; `alike` is [N] bool. The loss is between 0 and 1 - h.
    """
    return torch.where(alike, 1 - cosines, cosines - hinge).mean()

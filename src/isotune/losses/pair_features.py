"""The input of a classifier of sentence pairs: the two vectors and their difference.

ConSERT, section 3.3, equation 2 (after SBERT): f = concat(r1, r2, |r1 - r2|). The authors' scripts add max(r1, r2)^2.
"""

from __future__ import annotations

import torch
from torch import Tensor


def pair_features(first: Tensor, second: Tensor, max_square: bool = False) -> Tensor:
    """The features of N pairs, side by side.

    `first` and `second` are [N, d]; the result is [N, 3d]. With `max_square` it is [N, 4d]: the square of the
    element-wise maximum is added.
    """
    parts = [first, second, (first - second).abs()]
    if max_square:
        parts.append(torch.maximum(first, second).square())
    return torch.cat(parts, dim=-1)

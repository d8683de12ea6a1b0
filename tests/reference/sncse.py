"""SNCSE's margin loss, number by number as the papers write it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tests.reference.losses import sim


def bidirectional_margin(
    anchors: Sequence[Tensor], positives: Sequence[Tensor], negatives: Sequence[Tensor], alpha: float, beta: float
) -> Tensor:
    """Small-BERT paper, equation 2, averaged over the batch."""
    total = torch.zeros((), dtype=torch.float64)
    for anchor, positive, negative in zip(anchors, positives, negatives, strict=True):
        delta = sim(anchor, negative) - sim(anchor, positive)
        if delta + alpha > 0:
            total = total + (delta + alpha)
        if -delta - beta > 0:
            total = total + (-delta - beta)
    return total / len(anchors)

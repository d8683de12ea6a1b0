"""BERT-CF's contrastive loss, term by term."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.reference.losses import sim


def mirror_info_nce(clean: Tensor, masked: Tensor, temperature: float) -> Tensor:
    """L_mirror (BERT-CF, section 4.1): N(x_i) is f'(x'_i) and, for all j != i, f'(x'_j) and f(x_j)."""
    b = len(clean)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(b):
        targets = [masked[i]]
        for j in range(b):
            if j != i:
                targets += [masked[j], clean[j]]
        assert len(targets) == 2 * b - 1
        denominator = sum(torch.exp(sim(clean[i], target) / temperature) for target in targets)
        total = total - torch.log(torch.exp(sim(clean[i], masked[i]) / temperature) / denominator)
    return total / b

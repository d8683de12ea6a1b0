"""WK pooling, a token and a layer at a time as SBERT-WK, section IV writes it, in float64."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tests.reference.losses import sim


def token(states: Sequence[Tensor], released: bool, window: int = 2) -> tuple[Tensor, Tensor]:
    """The unified vector [d] of a token's states in the layers [d] each, and its importance."""
    alignment, novelty = [], []
    for i, v in enumerate(states):
        lower = () if released and i < window else range(i - window, i)
        context = [
            states[j] for j in (*lower, *range(i + 1, i + window + 1)) if 0 <= j < len(states)
        ]
        basis, _, _ = torch.linalg.svd(torch.stack(context, dim=1), full_matrices=False)  # [d, n]
        rest = v - basis @ (basis.T @ v)
        inside = (v - rest).norm() / v.norm() / (len(context) + 1) if released else 1
        alignment.append(inside / (sum(sim(v, c) for c in context) / len(context)))
        novelty.append(rest.norm() / v.norm())
    weights = [
        (a / sum(alignment) + n / sum(novelty)) / 2 for a, n in zip(alignment, novelty, strict=True)
    ]
    unified = sum(
        (w * v for w, v in zip(weights, states, strict=True)), torch.zeros_like(states[0])
    )
    changes = [sim(states[i], states[i + 1]) for i in range(len(states) - 1)]
    mean = sum(changes) / len(changes)
    return unified, torch.as_tensor(sum((c - mean) ** 2 for c in changes) / len(changes))


def sentence(states: Sequence[Tensor], released: bool) -> Tensor:
    """The vector [d] of a sentence's states in the layers, [length, d] each.

    Its last token doesn't count.
    """
    tokens = [
        token([layer[i] for layer in states], released) for i in range(max(1, len(states[0]) - 1))
    ]
    total = sum(importance for _, importance in tokens)
    return torch.stack([importance / total * unified for unified, importance in tokens]).sum(0)

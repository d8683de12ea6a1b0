"""InfoNCE: each query has to find its key among the keys of all.

SimCSE's objective (the small-BERT paper's section on contrastive learning uses the same): one direction only, from the
first view to the second, with N - 1 negatives.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize


def info_nce(queries: Tensor, keys: Tensor, temperature: float) -> Tensor:
    """The mean over queries of -log softmax of the own key's similarity.

    Args:
        queries: [N, d].
        keys: [N, d]; key i belongs to query i.
        temperature: divides the similarities.

    Returns:
        A scalar. log N if all vectors are the same.
    """
    logits = normalize(queries, dim=-1) @ normalize(keys, dim=-1).T / temperature  # [N, N]
    return cross_entropy(logits, torch.arange(len(queries), device=logits.device))

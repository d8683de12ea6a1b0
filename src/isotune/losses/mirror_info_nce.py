"""BERT-CF's InfoNCE (section 4.1): each clean sentence has to find its masked view.

The candidates of a clean sentence are all masked views, its own among them, and the clean views of the others: 2N - 1.
They are those of NT-Xent, of which this is one direction: masked views are never queries.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from isotune.losses.precision import in_float32
from isotune.losses.similarities import mean_over_queries


@in_float32
def mirror_info_nce(clean: Tensor, masked: Tensor, temperature: float) -> Tensor:
    """The mean over clean views of -log softmax of the own masked view's similarity (L_mirror).

    Args:
        clean: [N, d].
        masked: [N, d], the other view of each sentence, in the same order.
        temperature: divides the similarities.

    Returns:
        A scalar. log(2N - 1) if all vectors are the same.
    """

    def loss(logits: Tensor, own: Tensor) -> Tensor:  # [B, 2N], [B]
        without_itself = logits.scatter(1, len(clean) + own[:, None], -torch.inf)
        return cross_entropy(without_itself, own, reduction="sum")

    queries, keys = normalize(clean, dim=-1), normalize(torch.cat([masked, clean]), dim=-1)  # [N, d], [2N, d]
    return mean_over_queries(loss, queries, keys, temperature)

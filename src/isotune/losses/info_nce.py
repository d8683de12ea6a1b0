"""InfoNCE: each query has to find its key among the keys of all queries.

This is SimCSE's objective, and equation 1 of the small-BERT paper (section 3). It has one direction only, from the
first view to the second, with N - 1 negatives. With hard negatives (SimCSE, equation 5) there are N more negatives,
because every query has the hard negatives of all queries.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from isotune.losses.precision import in_float32
from isotune.losses.similarities import mean_over_queries


@in_float32
def info_nce(
    queries: Tensor,
    keys: Tensor,
    temperature: float,
    hard_negatives: Tensor | None = None,
    hard_negative_weight: float = 0.0,
) -> Tensor:
    """The mean over queries of -log softmax of the similarity with the query's key.

    Key i [N, d] and hard negative i [N, d] belong to query i [N, d]. `hard_negative_weight` is added to the logit of a
    query and its own hard negative; it is the logarithm of SimCSE's alpha (its appendix on hard negatives). If all
    vectors are equal, the loss is log N, or log 2N with hard negatives of weight 0.
    """
    candidates = keys if hard_negatives is None else torch.cat([keys, hard_negatives])  # [N or 2N, d]

    def loss(logits: Tensor, numbers: Tensor) -> Tensor:  # [B, N or 2N], [B]
        if hard_negatives is not None and hard_negative_weight:
            weights = logits.new_full((len(numbers), 1), hard_negative_weight)
            logits = logits.scatter_add(1, len(queries) + numbers[:, None], weights)
        return cross_entropy(logits, numbers, reduction="sum")

    return mean_over_queries(loss, normalize(queries, dim=-1), normalize(candidates, dim=-1), temperature)

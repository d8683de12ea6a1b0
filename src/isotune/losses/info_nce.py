"""InfoNCE: each query has to find its key among the keys of all.

SimCSE's objective (and equation 1 of the small-BERT paper, section 3): one direction only, from the
first view to the second, with N - 1 negatives. With a hard negative for each query (SimCSE, equation 5) there are N
more, for every query has the hard negatives of all.
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
    """The mean over queries of -log softmax of the own key's similarity.

    Args:
        queries: [N, d].
        keys: [N, d]; key i belongs to query i.
        temperature: divides the similarities.
        hard_negatives: [N, d]; number i was made for query i.
        hard_negative_weight: added to the logit of a query's own hard negative; the logarithm of SimCSE's alpha
            (its appendix on hard negatives).

    Returns:
        A scalar. If all vectors are the same, log N, or log 2N with hard negatives of no weight.
    """
    candidates = keys if hard_negatives is None else torch.cat([keys, hard_negatives])  # [N or 2N, d]

    def loss(logits: Tensor, own: Tensor) -> Tensor:  # [B, N or 2N], [B]
        if hard_negatives is not None and hard_negative_weight:
            weight = logits.new_full((len(own), 1), hard_negative_weight)
            logits = logits.scatter_add(1, len(queries) + own[:, None], weight)
        return cross_entropy(logits, own, reduction="sum")

    return mean_over_queries(loss, normalize(queries, dim=-1), normalize(candidates, dim=-1), temperature)

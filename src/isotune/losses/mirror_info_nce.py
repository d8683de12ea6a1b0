"""BERT-CF's InfoNCE (section 4.1): each clean sentence has to find its masked view.

The candidates of a clean sentence are all masked views and the clean views of the other sentences: 2N - 1. These are
the candidates of NT-Xent, of which this loss is one direction: masked views are never queries.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from isotune.losses.precision import in_float32
from isotune.losses.similarities import contrastive_loss


@in_float32
def mirror_info_nce(clean: Tensor, masked: Tensor, temperature: float) -> Tensor:
    """The mean over clean views of -log softmax of the similarity with the sentence's masked view (L_mirror).

    `clean` and `masked` are [N, d], the two views of each sentence in the same order. The loss is log(2N - 1) if all
    vectors are equal.
    """
    numbers = torch.arange(len(clean), device=clean.device)  # [N]
    queries = normalize(clean, dim=-1)  # [N, d]
    candidates = normalize(torch.cat([masked, clean]), dim=-1)  # [2N, d]
    return contrastive_loss(queries, candidates, temperature, positive=numbers, itself=len(clean) + numbers)

"""The objectives of "Self-Guided Contrastive Learning for BERT Sentence Representations" (Kim et al., 2021).

c_i is the sentence vector that is tuned; h_i, or h_i,k of layer k, are views of the same sentence out of a fixed model
(section 3.1). Section 3.2 takes NT-Xent apart in three steps:

- base: `nt_xent` of c and h, where all 2N vectors look for their counterparts;
- opt1: only the c look for theirs, among the h and the other c;
- opt2: among the h alone, which is `info_nce` from c to h;
- opt3: every layer's view of the sentence is a target by itself, and all layers' views of the other sentences are
  negatives. This is SG-OPT.

The authors' code lacks a negative in opt2 and can't run base; here both are as in the text.

Letters: N sentences, L layers, d features.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, logsigmoid, normalize

from isotune.losses.precision import in_float32
from isotune.losses.similarities import mean_over_queries


@in_float32
def self_guided_opt1(sentences: Tensor, views: Tensor, temperature: float) -> Tensor:
    """L^opt1: -log softmax of the own view's similarity, among all views and the other sentences' vectors.

    Args:
        sentences: [N, d], the c.
        views: [N, d], the h, in the same order.
        temperature: divides the similarities.

    Returns:
        A scalar, the mean over sentences. log(2N - 1) if all vectors are the same.
    """

    def loss(logits: Tensor, own: Tensor) -> Tensor:  # [B, 2N], [B]
        without_itself = logits.scatter(1, own[:, None], -torch.inf)
        return cross_entropy(without_itself, len(sentences) + own, reduction="sum")

    c = normalize(sentences, dim=-1)  # [N, d]
    return mean_over_queries(loss, c, torch.cat([c, normalize(views, dim=-1)]), temperature)


@in_float32
def self_guided_opt3(sentences: Tensor, views: Tensor, temperature: float) -> Tensor:
    """L^opt3: -log of each own view's share against all layers' views of the other sentences.

    Args:
        sentences: [N, d], the c.
        views: [N, L, d], the h of every layer, sentences in the same order.
        temperature: divides the similarities.

    Returns:
        A scalar, the mean over sentences and layers. log(1 + (N - 1) L) if all vectors are the same.
    """
    layers = views.shape[1]

    def loss(logits: Tensor, own: Tensor) -> Tensor:  # [B, N L], [B]
        places = layers * own[:, None] + torch.arange(layers, device=own.device)  # [B, L]
        positives = logits.gather(1, places)  # [B, L]
        negatives = logits.scatter(1, places, -torch.inf).logsumexp(1, keepdim=True)  # [B, 1]
        # log(e^p / (e^p + e^n)) is the log-sigmoid of p - n.
        return -logsigmoid(positives - negatives).sum() / layers

    c, h = normalize(sentences, dim=-1), normalize(views, dim=-1)  # [N, d], [N, L, d]
    return mean_over_queries(loss, c, h.flatten(0, 1), temperature)

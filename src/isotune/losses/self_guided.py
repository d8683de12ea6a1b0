"""The losses of "Self-Guided Contrastive Learning for BERT Sentence Representations" (Kim et al., 2021).

c_i is the vector of sentence i that is tuned. h_i, or h_i,k of layer k, are views of the same sentence from a fixed
model (section 3.1). Section 3.2 changes NT-Xent in three steps:

- base: `nt_xent` of c and h; all 2N vectors look for their counterparts.
- opt1: only the c look for theirs, among the h and the other c.
- opt2: among the h alone; this is `info_nce` from c to h.
- opt3: the view of the sentence in every layer is a target of its own; the views of the other sentences in all layers
  are negatives. This is SG-OPT.

The authors' code lacks a negative in opt2 and can't run base; here both are as in the text.

Letters: N sentences, L layers, d features.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, normalize

from isotune.losses.precision import in_float32
from isotune.losses.similarities import contrastive_loss, mean_over_queries


@in_float32
def self_guided_opt1(sentences: Tensor, views: Tensor, temperature: float) -> Tensor:
    """L^opt1: -log softmax of the similarity with the sentence's view, among all views and the other sentences.

    `sentences` [N, d] are the c and `views` [N, d] the h, in the same order. The loss is the mean over sentences;
    log(2N - 1) if all vectors are equal.
    """
    numbers = torch.arange(len(sentences), device=sentences.device)  # [N]
    c, h = normalize(sentences, dim=-1), normalize(views, dim=-1)  # [N, d], [N, d]
    return contrastive_loss(c, torch.cat([c, h]), temperature, positive=len(c) + numbers, itself=numbers)


@in_float32
def self_guided_opt3(sentences: Tensor, views: Tensor, temperature: float) -> Tensor:
    """L^opt3: -log of the share of each of the sentence's views against all views of the other sentences.

    `sentences` [N, d] are the c and `views` [N, L, d] the h of every layer, in the same order. The loss is the mean
    over sentences and layers; log(1 + (N - 1) L) if all vectors are equal.
    """
    layers = views.shape[1]

    def loss(logits: Tensor, numbers: Tensor) -> Tensor:  # [B, N L], [B]
        places = layers * numbers[:, None] + torch.arange(layers, device=numbers.device)  # [B, L]
        positives = logits.gather(1, places)  # [B, L]
        negatives = logits.scatter(1, places, -torch.inf).logsumexp(1, keepdim=True)  # [B, 1]
        # log(e^p / (e^p + e^n)) is the log-sigmoid of p - n.
        return -logsigmoid(positives - negatives).sum() / layers

    c, h = normalize(sentences, dim=-1), normalize(views, dim=-1)  # [N, d], [N, L, d]
    return mean_over_queries(loss, c, h.flatten(0, 1), temperature)

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
    n = len(sentences)
    c = normalize(sentences, dim=-1)  # [N, d]
    candidates = torch.cat([c, normalize(views, dim=-1)])  # [2N, d]
    itself = torch.eye(n, 2 * n, dtype=torch.bool, device=c.device)
    logits = (c @ candidates.T / temperature).masked_fill(itself, -torch.inf)  # [N, 2N]
    return cross_entropy(logits, torch.arange(n, 2 * n, device=c.device))


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
    c, h = normalize(sentences, dim=-1), normalize(views, dim=-1)  # [N, d], [N, L, d]
    logits = torch.einsum("id,mld->iml", c, h) / temperature  # [N, N, L]
    positives = logits.diagonal().T  # [N, L]
    itself = torch.eye(len(c), dtype=torch.bool, device=c.device)[:, :, None]
    negatives = logits.masked_fill(itself, -torch.inf).flatten(1).logsumexp(1, keepdim=True)  # [N, 1]
    # log(e^p / (e^p + e^n)) is the log-sigmoid of p - n.
    return -logsigmoid(positives - negatives).mean()

"""Cosines of sentence pairs from the hidden states inside a language model, pooled in many ways in one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from isotune.data import Packed, ScoredPairs, pack
from isotune.encoder import Encoder
from isotune.errors import InputError
from isotune.evaluation import SentenceEncoder
from isotune.lab.analyses.analysis import spearman, task_name

Pool = Callable[[Mapping[int, Tensor], Packed], Tensor]
"""The hidden states [T, d] of each layer -> the vectors of N sentences in C ways, [N, C, d], in packed order."""


def language_models(encoders: Mapping[str, SentenceEncoder]) -> dict[str, Encoder]:
    """The encoders; refuses one without hidden states."""
    models = {}
    for name, encoder in encoders.items():
        if not isinstance(encoder, Encoder):
            raise InputError(f"{name} is {type(encoder).__name__}, which has no layers to look into; leave it out")
        models[name] = encoder
    return models


def spearman_by_task(encoder: Encoder, tasks: Sequence[ScoredPairs], pool: Pool) -> dict[str, list[float]]:
    """Spearman's correlation of each of C ways to pool, by task."""
    return {
        task_name(pairs): [spearman(pairs.scores, cosines) for cosines in pooled_cosines(encoder, pairs, pool)]
        for pairs in tasks
    }


@torch.no_grad()
def pooled_cosines(encoder: Encoder, pairs: ScoredPairs, pool: Pool) -> NDArray[np.float64]:
    """The cosines [C, N] of N pairs in C ways; 0 if a vector is zero. Refuses hidden states that are not finite.

    Both sentences of a pair are in the same batch, so that no vectors have to be kept.
    """
    sides = [encoder.tokenize(sentences) for sentences in (pairs.sentence1, pairs.sentence2)]
    lengths = [len(first) + len(second) for first, second in zip(*sides, strict=True)]
    encoder.eval()
    parts, batches = [], encoder.batches(lengths)
    for batch in batches:
        tokens = pack([side[i] for side in sides for i in batch]).to(encoder.device)  # n first sentences, n second
        states = encoder.backbone(tokens, layers=range(encoder.backbone.layers + 1))
        unit = normalize(tokens.restore(pool(states, tokens)).double(), dim=-1)  # [2 n, C, d]
        first, second = unit.chunk(2)
        parts.append((first * second).sum(-1).cpu().numpy())  # [n, C]
    cosines: NDArray[np.float64] = np.concatenate(parts)[np.concatenate(batches).argsort()]  # [N, C]
    if not np.isfinite(cosines).all():
        raise InputError(
            f"{pairs.name}: the model's hidden states have NaN or infinite values; its weights are damaged"
        )
    return cosines.T.round(10)  # as `cosine_similarities`

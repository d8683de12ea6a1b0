"""Cosines of pairs from the hidden states inside a language model, for many ways to pool them at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from isotune.data import ScoredPairs
from isotune.data.packed import Packed, pack
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.evaluation import SentenceEncoder

Pool = Callable[[Sequence[Tensor], Packed], Tensor]
"""Every hidden state [T, d] of packed sentences -> [N, C, d], a vector for each of C ways, in packed order."""


def language_models(encoders: Mapping[str, SentenceEncoder]) -> dict[str, Encoder]:
    """The encoders, all of which have hidden states.

    Raises:
        InputError: one has none.
    """
    models = {}
    for name, encoder in encoders.items():
        if not isinstance(encoder, Encoder):
            raise InputError(f"{name} is {type(encoder).__name__}, which has no layers to look into; leave it out")
        models[name] = encoder
    return models


@torch.no_grad()
def pooled_cosines(encoder: Encoder, pairs: ScoredPairs, pool: Pool) -> NDArray[np.float64]:
    """The cosine of each pair in each way, [C, N], from one forward pass; 0 with a zero vector.

    Both sentences of a pair are in the same batch, so that only cosines are kept.

    Raises:
        InputError: a hidden state is not finite.
    """
    sides = [encoder.tokenize(sentences) for sentences in (pairs.sentence1, pairs.sentence2)]
    lengths = [len(first) + len(second) for first, second in zip(*sides, strict=True)]
    encoder.eval()
    parts, places = [], encoder.batches(lengths)
    for rows in places:
        tokens = pack([side[i] for side in sides for i in rows]).to(encoder.device)  # n first sentences, n second
        states = encoder.backbone(tokens, all_layers=True)
        unit = normalize(tokens.restore(pool(states, tokens)).double(), dim=-1)  # [2 n, C, d]
        first, second = unit.chunk(2)
        parts.append((first * second).sum(-1).cpu().numpy())  # [n, C]
    cosines: NDArray[np.float64] = np.concatenate(parts)[np.concatenate(places).argsort()]  # [N, C]
    if not np.isfinite(cosines).all():
        raise InputError(
            f"{pairs.name}: the model's hidden states have NaN or infinite values; its weights are damaged"
        )
    return cosines.T.round(10)  # as `cosine_similarities`

"""The losses: pure functions of tensors that return a scalar, in three files by kind."""

from isotune.losses.contrastive import info_nce, mirror_info_nce, nt_xent, self_guided_opt3
from isotune.losses.likelihood import bits_per_dimension, token_cross_entropy
from isotune.losses.pairs import bidirectional_margin, cosent, cosine_embedding, hinged_cosine, pair_features

__all__ = [
    "bidirectional_margin",
    "bits_per_dimension",
    "cosent",
    "cosine_embedding",
    "hinged_cosine",
    "info_nce",
    "mirror_info_nce",
    "nt_xent",
    "pair_features",
    "self_guided_opt3",
    "token_cross_entropy",
]

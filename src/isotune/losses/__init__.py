"""The losses: pure functions of tensors that return a scalar, in three files by kind.

`at_widths` makes the terms of any loss at several widths of the vectors.
"""

from isotune.losses.contrastive import (
    info_nce,
    mirror_info_nce,
    nt_xent,
    ranking_divergence,
    self_guided_opt3,
    soft_info_nce,
    sup_con,
)
from isotune.losses.likelihood import bits_per_dimension, token_cross_entropy
from isotune.losses.matryoshka import at_widths
from isotune.losses.pairs import (
    bidirectional_margin,
    cosent,
    cosine_distance,
    cosine_embedding,
    hinged_cosine,
    pair_features,
)

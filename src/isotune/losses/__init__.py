"""The losses: one file for each loss, pure functions of sentence vectors [N, d].

Similarity is the cosine everywhere, and `temperature` divides the similarities. A loss is a scalar: a mean over the
sentences that it compares, in nats, unless it says otherwise.
"""

from isotune.losses.bidirectional_margin import bidirectional_margin
from isotune.losses.bits_per_dimension import bits_per_dimension
from isotune.losses.hinged_cosine import cosine_embedding, hinged_cosine
from isotune.losses.info_nce import info_nce
from isotune.losses.mirror_info_nce import mirror_info_nce
from isotune.losses.nt_xent import nt_xent
from isotune.losses.pair_features import pair_features
from isotune.losses.self_guided import self_guided_opt1, self_guided_opt3

__all__ = [
    "bidirectional_margin",
    "bits_per_dimension",
    "cosine_embedding",
    "hinged_cosine",
    "info_nce",
    "mirror_info_nce",
    "nt_xent",
    "pair_features",
    "self_guided_opt1",
    "self_guided_opt3",
]

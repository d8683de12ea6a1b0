"""Contrastive objectives: one file a loss, pure functions of sentence vectors [N, d].

Similarity is cosine everywhere. A loss is a mean over the sentences it compares, in nats.
"""

from isotune.losses.info_nce import info_nce
from isotune.losses.nt_xent import nt_xent

__all__ = ["info_nce", "nt_xent"]

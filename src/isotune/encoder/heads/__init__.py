"""Layers after the pooling that stay with the encoder and are saved in its folder."""

from isotune.encoder.heads.cut import TRUNCATE_DIM, Cut, cut, cut_units, is_cut
from isotune.encoder.heads.flow import NormalizingFlow
from isotune.encoder.heads.head import Dense, Head, Heads, Normalize

"""Rows from files, the hub and named datasets; their tokens; packed batches of these."""

from typing import TYPE_CHECKING

from isotune.data.catalogue import DATASETS, Dataset
from isotune.data.datasets import available, is_stand_in, stand_ins
from isotune.data.overlap import Overlap, Shared
from isotune.data.rows import (
    HIGHEST_SCORE,
    LabelledPair,
    LabelledSentence,
    NeighbourPair,
    Pair,
    Row,
    ScoredPair,
    Sentence,
    Triplet,
)
from isotune.data.sources import ScoredPairs, read, read_scored_pairs
from isotune.lazy import lazy

if TYPE_CHECKING:
    from isotune.data.packed import Packed, pack

__getattr__ = lazy(__name__, dict.fromkeys(("Packed", "pack"), "data.packed"))  # loads torch

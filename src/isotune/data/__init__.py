"""Rows from files, the hub and named datasets; their tokens; packed batches of these."""

from isotune.data.catalogue import DATASETS, Dataset
from isotune.data.datasets import ScoredPairs, available, scored_pairs
from isotune.data.overlap import Overlap, Shared
from isotune.data.rows import LabelledPair, LabelledSentence, Pair, Row, ScoredPair, Sentence, Triplet
from isotune.data.sources import read, read_scored_pairs

__all__ = [
    "DATASETS",
    "Dataset",
    "LabelledPair",
    "LabelledSentence",
    "Overlap",
    "Pair",
    "Row",
    "ScoredPair",
    "ScoredPairs",
    "Sentence",
    "Shared",
    "Triplet",
    "available",
    "read",
    "read_scored_pairs",
    "scored_pairs",
]

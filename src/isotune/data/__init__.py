"""Rows out of files, the hub and named datasets; tokenised once; packed into batches."""

from isotune.data.datasets import DATASETS, Dataset, ScoredPairs, available, dataset_rows, scored_pairs
from isotune.data.overlap import Overlap, Shared
from isotune.data.rows import LabelledPair, LabelledSentence, Pair, Row, ScoredPair, Sentence, Triplet, texts
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
    "dataset_rows",
    "read",
    "read_scored_pairs",
    "scored_pairs",
    "texts",
]

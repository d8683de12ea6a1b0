"""Rows out of files, the hub and named datasets; tokenised once; packed into batches."""

from isotune.data.named import DATASETS, Dataset, ScoredPairs, available, named_rows, scored_pairs
from isotune.data.rows import LabelledPair, Pair, Row, ScoredPair, Sentence, Triplet, texts
from isotune.data.sources import read, read_scored_pairs

__all__ = [
    "DATASETS",
    "Dataset",
    "LabelledPair",
    "Pair",
    "Row",
    "ScoredPair",
    "ScoredPairs",
    "Sentence",
    "Triplet",
    "available",
    "named_rows",
    "read",
    "read_scored_pairs",
    "scored_pairs",
    "texts",
]

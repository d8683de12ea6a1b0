"""The datasets known by name: what is in them, where they are, under which licence.

Their files are lines of text, or tab-separated with a header.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from isotune.data.catalogue.dataset import Dataset, Split
from isotune.data.catalogue.labelled import LABELLED
from isotune.data.catalogue.sts import STS
from isotune.data.catalogue.text import TEXT

__all__ = ["DATASETS", "Dataset", "Split"]

DATASETS: Mapping[str, Dataset] = MappingProxyType({dataset.name: dataset for dataset in (*STS, *LABELLED, *TEXT)})

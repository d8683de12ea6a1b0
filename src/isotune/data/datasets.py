"""Datasets by name: found, checked and read.

A dataset is looked for in this package, then in `$ISOTUNE_DATA`, then on the Hugging Face hub. What is loaded
is what the papers used: a file's content must have the catalogue's SHA-256, a split its number of rows.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from isotune.bundled import bundled_data
from isotune.data.catalogue import DATASETS, Dataset, Split
from isotune.data.derived import make_rows
from isotune.data.hub import HubSource, read_hub
from isotune.data.records import opened, read_file
from isotune.data.rows import (
    LabelledPair,
    LabelledSentence,
    Pair,
    R,
    Record,
    Records,
    ScoredPair,
    Triplet,
    to_rows,
)
from isotune.errors import InputError, unknown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "DATASETS",
    "Dataset",
    "ScoredPairs",
    "Split",
    "available",
    "dataset_rows",
    "scored_pairs",
    "to_scored_pairs",
]

_ADJECTIVES = MappingProxyType({"score": "scored", "label": "labelled", "": ""})


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """N sentence pairs with gold scores, to evaluate on.

    Attributes:
        name: The dataset's name, or the file's.
        split: Empty for a file.
        sentence1: N sentences.
        sentence2: N sentences.
        scores: [N] float64, on the dataset's own scale; higher is more similar.
        subsets: N names of the part that each pair is from; all of them `name` where no parts are known.
    """

    name: str
    split: str
    sentence1: list[str]
    sentence2: list[str]
    scores: NDArray[np.float64]
    subsets: list[str]


def available(name: str) -> bool:
    """Whether all of a dataset's files are on this machine; the hub is not asked."""
    dataset = _dataset(name)
    return all(map(available, dataset.union)) and all(map(_find, dataset.splits.values()))


def dataset_rows(
    name: str,
    split: str | None,
    row: type[R],
    columns: Mapping[str, str] | None = None,
    *,
    min_words: int | None = None,
    min_score: float | None = None,
) -> Iterator[R]:
    """The rows of a split, or of all splits where `split` is None; streamed.

    Where the rows need scores or labels, they are made of those records that have one. The other arguments are
    those of `read`.

    Raises:
        InputError: There is no such dataset or split, it can't be found, or it isn't what it should be; or rows
            that need scores or labels are asked for of all splits, which would mix what to train on with what to
            test on.
    """
    dataset = _dataset(name)
    gold = _gold(dataset, row, min_score)
    if split is None and gold:
        one_of = ", ".join([f"{name}:{s}" for s in dataset.splits] or dataset.union)
        raise InputError(f"{_ADJECTIVES[gold]} rows of {name} are read by the split: write one of {one_of}")
    names = dataset.union or (name,)
    parts = [(name, split)] if split is not None else [(part, s) for part in names for s in _dataset(part).splits]
    loaded = [_load(*part, gold) for part in parts]
    return chain.from_iterable(
        make_rows(place, records, row, columns, positive=dataset.positive, min_words=min_words, min_score=min_score)
        for place, records in loaded
    )


def scored_pairs(name: str, split: str = "test") -> ScoredPairs:
    """The pairs of a split that have a score, in the file's order.

    Raises:
        InputError: As `dataset_rows`.
    """
    pairs = to_scored_pairs(name, split, [_load(name, split, "score")])
    lowest, highest = _dataset(name).scores
    if not ((lowest <= pairs.scores) & (pairs.scores <= highest)).all():
        raise InputError(f"{name}:{split}: its scores should lie between {lowest:g} and {highest:g} and don't all")
    return pairs


def to_scored_pairs(
    name: str,
    split: str,
    sources: Iterable[tuple[str, Iterable[tuple[int, Record]]]],
    columns: Mapping[str, str] | None = None,
) -> ScoredPairs:
    """Joins the records of all (source, records); their column "subset", if there is one, tells the part."""
    import numpy as np

    rows: list[ScoredPair] = []
    subsets: list[str] = []
    for source, records in sources:
        kept = list(records)
        rows += to_rows(source, kept, ScoredPair, columns)
        subsets += [str(record.get("subset", name)) for _, record in kept]
    return ScoredPairs(
        name=name,
        split=split,
        sentence1=[row.sentence1 for row in rows],
        sentence2=[row.sentence2 for row in rows],
        scores=np.array([row.score for row in rows], dtype=np.float64),
        subsets=subsets,
    )


def _dataset(name: str) -> Dataset:
    if name not in DATASETS:
        raise unknown("dataset", name, DATASETS)
    return DATASETS[name]


def _gold(dataset: Dataset, row: type[R], min_score: float | None) -> str:
    """The column without which no such row can be made: "score", "label" or none."""
    if row is ScoredPair or min_score is not None:
        return "score"
    if row in (LabelledPair, LabelledSentence, Triplet) or (row is Pair and dataset.positive):
        return "label"
    return ""


def _split(name: str, split: str, gold: str) -> Split:
    dataset = _dataset(name)
    has_gold = any(gold in row_type._fields for row_type in dataset.row_types)
    splits = {s: part for s, part in dataset.splits.items() if not gold or (part.gold_count and has_gold)}
    if split not in splits:
        raise unknown(f"{_ADJECTIVES[gold]} split of {name}".lstrip(), split, splits or ["none"])
    return splits[split]


def _find(split: Split) -> Path | None:
    """The split's file, where this machine has it."""
    folders = [bundled_data(), os.environ.get("ISOTUNE_DATA")]
    paths = (Path(folder, split.file) for folder in folders if folder)
    return next((path for path in paths if path.is_file()), None)


def _load(name: str, split: str, gold: str) -> tuple[str, Records]:
    """Where a split's records are from, and the records: all of them, or those with a value in the column `gold`."""
    dataset, part = _dataset(name), _split(name, split, gold)
    if path := _find(part):
        return str(path), _of_split(str(path), _read_checked(path, part), dataset, split, gold)
    if not dataset.hub:
        raise InputError(f"{name}: set ISOTUNE_DATA to a folder with {part.file}; no copy of it is known on the hub")
    place = str(dataset.hub)
    return place, _of_split(place, _read_copy(dataset, dataset.hub, split), dataset, split, gold)


def _of_split(place: str, records: Records, dataset: Dataset, split: str, gold: str) -> Records:
    part = dataset.splits[split]
    names = part.names_in_file or (split,)
    found = 0
    for number, record in records:
        # A file of one split need not say which.
        if record.get("split", names[0]) not in names or (gold and record.get(gold) == ""):
            continue
        if dataset.subset and record["subset"] != dataset.subset:
            continue
        found += 1
        if dataset.blank and not str(record["sentence"]).strip():
            record = {**record, "sentence": dataset.blank}
        if dataset.labels:
            label = str(record["label"])
            record = {**record, "label": dataset.labels.get(label, label)}
        yield number, record
    expected = part.gold_count if gold else part.row_count
    if found != expected:
        raise InputError(
            f"{place}: {found:,} rows of {dataset.name}:{split}, not {expected:,}; "
            f"set ISOTUNE_DATA to a folder with {part.file}"
        )


def _read_checked(path: Path, split: Split) -> Records:
    """The records of a file that is what it should be.

    It is read twice, first for its hash: so nothing of a wrong file is handed out, and a large one isn't held.
    """
    with opened(path) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # BinaryIO has no readinto there
    if digest != split.sha256:
        raise InputError(f"{path}: the SHA-256 of its content is {digest}, but of the dataset's {split.sha256}")
    yield from read_file(path)


def _read_copy(dataset: Dataset, hub: HubSource, split: str) -> Records:
    try:
        yield from read_hub(hub, split)
    except InputError as error:
        file = dataset.splits[split].file
        raise InputError(f"{dataset.name}: set ISOTUNE_DATA to a folder with {file}, or be online; {error}") from error

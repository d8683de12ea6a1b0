"""Reads named datasets, and checks them.

A dataset is looked for in this package, then in `$ISOTUNE_DATA`, then on the Hugging Face hub. What is read is what
the papers used: the content of a file must have the SHA-256 of the catalogue, and a split its number of rows.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from isotune.bundled import bundled_data
from isotune.data.catalogue import DATASETS, Dataset, Split
from isotune.data.derived import RowQuery
from isotune.data.hub import HubSource, read_hub
from isotune.data.records import opened, read_file
from isotune.data.rows import LabelledPair, LabelledSentence, Pair, R, Record, Records, ScoredPair, Triplet, to_rows
from isotune.errors import InputError, unknown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ADJECTIVES = MappingProxyType({"score": "scored ", "label": "labelled ", "": ""})


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """N sentence pairs with gold scores, to evaluate on."""

    name: str  # the name of the dataset, or the path of the file
    split: str  # empty for a file
    sentence1: list[str]  # N sentences
    sentence2: list[str]  # N sentences
    scores: NDArray[np.float64]  # [N] float64, on the dataset's own scale; higher is more similar
    subsets: list[str]  # N names of the subset that each pair belongs to; `name` for every pair if there are no subsets


def available(name: str) -> bool:
    """Whether all files of a dataset are on this machine; the hub is not asked."""
    dataset = _dataset(name)
    return all(map(available, dataset.union)) and all(map(_find_file, dataset.splits.values()))


def dataset_records(name: str, split: str, query: RowQuery[R]) -> list[tuple[str, Records]]:
    """The records of a split, or of all splits if `split` is empty: (place, records) of each file or copy on the hub.

    If the query asks for rows with a score or label, these are only the records that have one.

    Raises:
        InputError: there is no dataset or split of that name, it can't be read, or it is not what the catalogue says;
            or rows with a score or label are asked for without a split, which would mix training and test data.
    """
    dataset = _dataset(name)
    gold = _gold_column(dataset, query)
    if split:
        return [_records(name, split, gold)]
    if gold:
        choices = ", ".join([f"{name}:{known}" for known in dataset.splits] or dataset.union)
        raise InputError(f"{_ADJECTIVES[gold]}rows of {name} are read by the split: write one of {choices}")
    return [_records(member, known, gold) for member in dataset.union or (name,) for known in _dataset(member).splits]


def scored_pairs(name: str, split: str = "test") -> ScoredPairs:
    """The pairs of a split that have a score, in the order of the file.

    Raises:
        InputError: as `dataset_records`.
    """
    pairs = to_scored_pairs(name, split, [_records(name, split, "score")])
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
    """Joins the records of all (source, records). The column "subset", if there is one, names a pair's subset."""
    import numpy as np

    pairs: list[ScoredPair] = []
    subsets: list[str] = []
    for source, records in sources:
        numbered = list(records)
        pairs += to_rows(source, numbered, ScoredPair, columns)
        subsets += [str(record.get("subset", name)) for _, record in numbered]
    return ScoredPairs(
        name=name,
        split=split,
        sentence1=[pair.sentence1 for pair in pairs],
        sentence2=[pair.sentence2 for pair in pairs],
        scores=np.array([pair.score for pair in pairs], dtype=np.float64),
        subsets=subsets,
    )


def _dataset(name: str) -> Dataset:
    if name not in DATASETS:
        raise unknown("dataset", name, DATASETS)
    return DATASETS[name]


def _gold_column(dataset: Dataset, query: RowQuery[R]) -> str:
    """The column without which no such row can be made: "score", "label", or "" if there is none."""
    if query.row_type is ScoredPair or query.min_score is not None:
        return "score"
    if query.row_type in (LabelledPair, LabelledSentence, Triplet) or (query.row_type is Pair and dataset.positive):
        return "label"
    return ""


def _find_file(split: Split) -> Path | None:
    """The file of a split, if it is on this machine."""
    folders = [bundled_data(), os.environ.get("ISOTUNE_DATA")]
    paths = (Path(folder, split.file) for folder in folders if folder)
    return next((path for path in paths if path.is_file()), None)


def _records(name: str, split: str, gold: str) -> tuple[str, Records]:
    """Where a split is read from, and its records: all of them, or those with a value in the column `gold`."""
    dataset = _dataset(name)
    has_gold = any(gold in row_type._fields for row_type in dataset.row_types)
    splits = {known: facts for known, facts in dataset.splits.items() if not gold or (facts.gold_count and has_gold)}
    if split not in splits:
        raise unknown(f"{_ADJECTIVES[gold]}split of {name}", split, splits or ["none"])
    facts = splits[split]
    if path := _find_file(facts):
        place, records = str(path), _read_checked(path, facts)
    elif dataset.hub:
        place, records = str(dataset.hub), _read_copy(dataset, dataset.hub, split, labelled=gold == "label")
    else:
        raise InputError(f"{name}: set ISOTUNE_DATA to a folder with {facts.file}; no copy of it is known on the hub")
    return place, _select(place, records, dataset, split, gold)


def _select(place: str, records: Records, dataset: Dataset, split: str, gold: str) -> Records:
    """The records of a split among those of its file, with the catalogue's labels and blank text; counted."""
    facts = dataset.splits[split]
    names = facts.names_in_file or (split,)
    count = 0
    for number, record in records:
        # A file with one split may have no column that names it.
        if record.get("split", names[0]) not in names or (gold and record.get(gold) == ""):
            continue
        if dataset.subset and record["subset"] != dataset.subset:
            continue
        count += 1
        if dataset.blank and not str(record["sentence"]).strip():
            record = {**record, "sentence": dataset.blank}
        if dataset.labels:
            label = str(record["label"])
            record = {**record, "label": dataset.labels.get(label, label)}
        yield number, record
    expected = facts.gold_count if gold else facts.row_count
    if count != expected:
        raise InputError(
            f"{place}: {count:,} rows of {dataset.name}:{split}, not {expected:,}; "
            f"set ISOTUNE_DATA to a folder with {facts.file}"
        )


def _read_checked(path: Path, split: Split) -> Records:
    """The records of a file; it is read for its hash first, so no record of a wrong file is given."""
    with opened(path) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # BinaryIO has no readinto there
    if digest != split.sha256:
        raise InputError(f"{path}: the SHA-256 of its content is {digest}, but of the dataset's {split.sha256}")
    yield from read_file(path)


def _read_copy(dataset: Dataset, hub: HubSource, split: str, *, labelled: bool) -> Records:
    try:
        yield from read_hub(hub, split, labelled=labelled)
    except InputError as error:
        file = dataset.splits[split].file
        raise InputError(f"{dataset.name}: set ISOTUNE_DATA to a folder with {file}, or be online; {error}") from error

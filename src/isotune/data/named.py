"""Datasets by name: found, checked and read.

A dataset is looked for in this package, then in `$ISOTUNE_DATA`, then on the Hugging Face hub. What is loaded
is what the papers used: a file's content must have the catalogue's SHA-256, a split its number of rows.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from isotune.bundled import bundled_data
from isotune.data.catalogue import DATASETS, Dataset, Split
from isotune.data.records import format_of, opened, read_hub
from isotune.data.rows import R, Record, ScoredPair, to_rows
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
    "named_rows",
    "scored_pairs",
    "to_scored_pairs",
]


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


def named_rows(name: str, split: str | None, row: type[R], columns: Mapping[str, str] | None = None) -> Iterator[R]:
    """The rows of a split, or of all splits where `split` is None; scored pairs are those that have a score.

    Raises:
        InputError: There is no such dataset or split, it can't be found, or it isn't what it should be; or
            scored pairs of all splits are asked for, which would mix what to train on with what to test on.
    """
    dataset = _dataset(name)
    scored = row is ScoredPair
    if split is not None:
        _split(name, split, scored)
        parts = [(name, split)]
    elif scored:
        raise InputError(f"scored pairs of {name} are read by the split: write {name}:train or the like")
    else:
        parts = [(part, s) for part in dataset.union or (name,) for s in _dataset(part).splits]
    loaded = (_load(*part, scored) for part in parts)
    return chain.from_iterable(to_rows(place, records, row, columns) for place, records in loaded)


def scored_pairs(name: str, split: str = "test") -> ScoredPairs:
    """The pairs of a split that have a score, in the file's order.

    Raises:
        InputError: As `named_rows`.
    """
    pairs = to_scored_pairs(name, split, [_load(name, split, scored=True)])
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


def _split(name: str, split: str, scored: bool) -> Split:
    splits = {s: part for s, part in _dataset(name).splits.items() if part.scored or not scored}
    if split not in splits:
        raise unknown(f"{'scored ' * scored}split of {name}", split, splits or ["none"])
    return splits[split]


def _find(split: Split) -> Path | None:
    """The split's file, where this machine has it."""
    folders = [bundled_data(), os.environ.get("ISOTUNE_DATA")]
    paths = (Path(folder, split.file) for folder in folders if folder)
    return next((path for path in paths if path.is_file()), None)


def _load(name: str, split: str, scored: bool) -> tuple[str, list[tuple[int, Record]]]:
    """Where a split's records are from, and the records: all of them, or those with a score."""
    part = _split(name, split, scored)
    path = _find(part)
    if path:
        place, records = str(path), _read_local(path, part)
    else:
        place, records = _read_copy(_dataset(name), split)
    records = [
        (number, record)
        for number, record in records
        # SICK calls its development split "trial"; a file of one split need not say which.
        if str(record.get("split", split)).replace("trial", "dev") == split
        and not (scored and record.get("score") == "")
    ]
    expected = part.scored if scored else part.rows
    if len(records) != expected:
        raise InputError(
            f"{place}: {len(records):,} rows of {name}:{split}, not {expected:,}; "
            f"set ISOTUNE_DATA to a folder with {part.file}"
        )
    return place, records


def _read_local(path: Path, split: Split) -> list[tuple[int, Record]]:
    with opened(path) as file:
        content = file.read()
    digest = hashlib.sha256(content).hexdigest()
    if digest != split.sha256:
        raise InputError(f"{path}: the SHA-256 of its content is {digest}, but of the dataset's {split.sha256}")
    return list(format_of(path)(BytesIO(content), str(path)))


def _read_copy(dataset: Dataset, split: str) -> tuple[str, list[tuple[int, Record]]]:
    try:
        return f"hub:{dataset.hub}", list(read_hub(dataset.hub, "validation" if split == "dev" else split))
    except InputError as error:
        file = dataset.splits[split].file
        raise InputError(f"{dataset.name}: set ISOTUNE_DATA to a folder with {file}, or be online; {error}") from error

"""Reads named datasets, and checks them.

A split is looked for in this package, then in `$ISOTUNE_DATA`, then where it is published. What is read is what the
papers used: the content of a file must have the SHA-256 of the catalogue, and a split its number of rows.
"""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

from isotune.bundled import BUNDLED_DATA
from isotune.data.catalogue import DATASETS, Dataset, Split
from isotune.data.derived import RowQuery
from isotune.data.published import is_fetched, open_published
from isotune.data.records import Opened, opened, read_file
from isotune.data.rows import (
    LabelledPair,
    LabelledSentence,
    Pair,
    R,
    Record,
    Records,
    ScoredPair,
    Triplet,
    normalized,
)
from isotune.errors import InputError, unknown

_ADJECTIVES = {"score": "scored ", "label": "labelled ", "": ""}


def available(source: str) -> bool:
    """Whether "name" or "name:split" of a dataset can be read from this machine; the hub is not asked."""
    dataset = DATASETS[source.partition(":")[0]]
    others = (*dataset.union, *filter(None, [dataset.gold_of]))
    return has_rows(source) and all(map(available, others))


def has_rows(source: str) -> bool:
    """Whether the rows of "name" or "name:split" are on this machine, without what other datasets add or take."""
    name, _, split = source.partition(":")
    dataset = DATASETS[name]
    if split and split not in dataset.splits:
        raise unknown(f"split of {name}", split, dataset.splits)
    splits = [part for known, part in dataset.splits.items() if split in ("", known)]
    return all(_find_file(part) or is_fetched(dataset, part) for part in splits)


def stand_ins(source: str) -> tuple[str, ...]:
    """The sources that stand in for a source, one for each split without a file; the source itself if none does."""
    name, _, split = source.partition(":")
    splits = DATASETS[name].splits if name in DATASETS else {}
    others = [
        part.stand_in for known, part in splits.items() if split in ("", known) and part.stand_in
    ]
    return tuple(dict.fromkeys(others)) or (source,)


def is_stand_in(source: str) -> bool:
    """Whether a source, "name" or "name:split", can stand in for a published one."""
    known = {part.stand_in for dataset in DATASETS.values() for part in dataset.splits.values()}
    return any(name == source or name.startswith(f"{source}:") for name in known)


def dataset_records(name: str, split: str, query: RowQuery[R]) -> list[Opened]:
    """The records of a split, or of all splits; only those with a score or label if the query's rows have one."""
    dataset = DATASETS[name]
    gold = _gold_column(dataset, query)
    if split:
        return [_open(name, split, gold)]
    if gold:
        choices = ", ".join([f"{name}:{known}" for known in dataset.splits] or dataset.union)
        raise InputError(
            f"{_ADJECTIVES[gold]}rows of {name} are read by the split: write one of {choices}"
        )
    return [
        _open(member, known, gold)
        for member in dataset.union or (name,)
        for known in DATASETS[member].splits
    ]


def _gold_column(dataset: Dataset, query: RowQuery[R]) -> str:
    """The column without which no such row can be made: "score", "label", or "" if there is none."""
    if query.row_type is ScoredPair or query.min_score is not None:
        return "score"
    if query.row_type in (LabelledPair, LabelledSentence) or (
        query.row_type is Pair and query.positive
    ):
        return "label"
    return "label" if query.row_type is Triplet and Triplet not in dataset.row_types else ""


def _find_file(split: Split) -> Path | None:
    folders = [BUNDLED_DATA, os.environ.get("ISOTUNE_DATA")]
    for folder in folders:
        if folder and split.file and os.path.isfile(Path(folder, split.file)):
            return Path(folder, split.file)
    return None


def _open(name: str, split: str, gold: str) -> Opened:
    dataset = DATASETS[name]
    has_gold = any(gold in row_type._fields for row_type in dataset.row_types)
    splits = {
        known: facts
        for known, facts in dataset.splits.items()
        if not gold or (facts.gold_count and has_gold)
    }
    if split not in splits:
        raise unknown(f"{_ADJECTIVES[gold]}split of {name}", split, splits or ["none"])
    facts = splits[split]
    if path := _find_file(facts):
        source = Opened(str(path), _read_checked(path, dataset, split))
        count = facts.rows_in_file
    else:
        source = open_published(dataset, split, labelled=gold == "label")
        count = facts.row_count
    if gold and dataset.gold_of:
        source = replace(source, records=_with_gold(source.records, dataset.gold_of, gold))
    return replace(
        source, records=_uniform(source, dataset, split, gold, facts.gold_count if gold else count)
    )


def _uniform(source: Opened, dataset: Dataset, split: str, gold: str, expected: int) -> Records:
    """The records, or those with a value in `gold`; raises at the end if they are not as many as expected."""
    count = 0
    for number, record in source.records:
        if gold and record.get(gold) == "":
            continue
        count += 1
        if dataset.blank and not str(record["sentence"]).strip():
            record = {**record, "sentence": dataset.blank}
        if "label" in record and (label := dataset.labels.get(str(record["label"]))):
            record = {**record, "label": label}
        yield number, record
    if expected not in (count, -1):
        rows = f"{count:,} rows of {dataset.name}:{split}"
        raise InputError(f"{source.place}: {rows}, not {expected:,}: it is not the published data")


def _with_gold(records: Records, name: str, gold: str) -> Records:
    """Gives a record without a value in `gold` that of the first pair with the same letters in another dataset."""
    known: dict[tuple[bytes, bytes], object] = {}
    for split in DATASETS[name].splits:
        for _, record in _open(name, split, gold).records:
            known.setdefault(_pair(record), record[gold])
    return (
        (number, record if record.get(gold) else {**record, gold: known.get(_pair(record), "")})
        for number, record in records
    )


def _pair(record: Record) -> tuple[bytes, bytes]:
    return normalized(str(record["sentence1"])), normalized(str(record["sentence2"]))


def _read_checked(path: Path, dataset: Dataset, split: str) -> Records:
    """The records of a split's file; it is read for its hash first, so no record of a wrong file is given."""
    facts = dataset.splits[split]
    with opened(path) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # BinaryIO has no readinto there
    if digest != facts.sha256:
        raise InputError(
            f"{path}: the SHA-256 of its content is {digest}, but of the dataset's {facts.sha256}"
        )
    names = facts.names_in_file or (split,)
    for number, record in read_file(path):
        # A file with one split may have no column that names it.
        if record.get("split", names[0]) in names and dataset.subset in ("", record.get("subset")):
            yield number, record

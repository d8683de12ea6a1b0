"""Reads named datasets, and checks them.

A split is looked for in this package, then in `$ISOTUNE_DATA`, then where it is published. What is
read is what the papers used: the content of a file must have the SHA-256 of the catalogue, and a
split its number of rows.
"""

import hashlib
import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path

from isotune.bundled import BUNDLED_DATA
from isotune.data.catalogue import DATASETS, Dataset, Split
from isotune.data.derived import RowQuery
from isotune.data.published import is_fetched, open_published, published_content
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
_GOLD: Mapping[type, str] = {
    ScoredPair: "score",
    LabelledPair: "label",
    LabelledSentence: "label",
}


def available(source: str) -> bool:
    """Whether "name" or "name:split" can be read from this machine; the hub is not asked."""
    dataset = DATASETS[source.partition(":")[0]]
    others = list(dataset.union)
    if dataset.gold_of:
        others.append(dataset.gold_of)
    return has_rows(source) and all(map(available, others))


def has_rows(source: str) -> bool:
    """Whether the rows of "name" or "name:split" are on this machine.

    What other datasets add or take is not looked for.
    """
    name, _, split = source.partition(":")
    dataset = DATASETS[name]
    if split and split not in dataset.splits:
        raise unknown(f"split of {name}", split, dataset.splits)
    chosen = _chosen(dataset, split).values()
    return all(_find_file(facts) or is_fetched(dataset, facts) for facts in chosen)


def dataset_contents(source: str) -> list[str]:
    """What stands for the content of each split of "name" or "name:split", where it is read.

    It is the SHA-256 of a file, or the commit on the hub. A file of the web is fetched for it.

    Raises:
        InputError: a split can't be read on this machine.
    """
    name, _, chosen = source.partition(":")
    dataset = DATASETS[name]
    contents = []
    for split, facts in _chosen(dataset, chosen).items():
        if _find_file(facts):
            # A file with another content is refused when it is read.
            contents.append(facts.sha256)
        else:
            contents.append(published_content(dataset, split))
    return contents


def stand_ins(source: str) -> tuple[str, ...]:
    """The sources that stand in for a source: one for each split without a file, or one for all.

    The source stands for itself if there are none.
    """
    name, colon, split = source.partition(":")
    if name not in DATASETS:
        return (source,)
    dataset = DATASETS[name]
    if dataset.stand_in:
        return (f"{dataset.stand_in}{colon}{split}",)
    names = [facts.stand_in for facts in _chosen(dataset, split).values()]
    return tuple(dict.fromkeys(filter(None, names))) or (source,)


def is_stand_in(source: str) -> bool:
    """Whether a source, "name" or "name:split", can stand in for a published one."""
    splits = chain.from_iterable(dataset.splits.values() for dataset in DATASETS.values())
    # "name" stands for "name:split" too.
    return any(f"{facts.stand_in}:".startswith(f"{source}:") for facts in splits)


def _chosen(dataset: Dataset, split: str) -> Mapping[str, Split]:
    """The split of this name, or all splits if the name is empty, by their names."""
    if not split:
        return dataset.splits
    return {name: facts for name, facts in dataset.splits.items() if name == split}


def dataset_records(name: str, split: str, query: RowQuery[R]) -> list[Opened]:
    """The records of a split, or of all splits.

    If the query's rows have a score or label, there are only the records with one.
    """
    dataset = DATASETS[name]
    gold = _gold_column(dataset, query)
    if split:
        return [_open(name, split, gold)]
    if gold:
        choices = [f"{name}:{known_split}" for known_split in dataset.splits] or dataset.union
        raise InputError(
            f"{_ADJECTIVES[gold]}rows of {name} are read by the split: write one of "
            f"{', '.join(choices)}"
        )
    sources = []
    for member in dataset.union or (name,):
        sources += [_open(member, member_split, gold) for member_split in DATASETS[member].splits]
    return sources


def _gold_column(dataset: Dataset, query: RowQuery[R]) -> str:
    """The column without which no such row can be made: "score", "label", or "" for none."""
    if query.min_score is not None:
        return "score"
    if query.row_type is Pair and query.positive:
        return "label"
    if query.row_type is Triplet and Triplet not in dataset.row_types:
        return "label"
    return _GOLD.get(query.row_type, "")


def _find_file(split: Split) -> Path | None:
    if not split.file:
        return None
    for folder in (BUNDLED_DATA, os.environ.get("ISOTUNE_DATA")):
        if folder:
            path = Path(folder, split.file)
            # A path that the system refuses is no file.
            if os.path.isfile(path):
                return path
    return None


def _open(name: str, split: str, gold: str) -> Opened:
    dataset = DATASETS[name]
    splits: Collection[str] = dataset.splits
    if gold:
        splits = _splits_with(dataset, gold)
    if split not in splits:
        raise unknown(f"{_ADJECTIVES[gold]}split of {name}", split, splits or ["none"])
    facts = dataset.splits[split]
    path = _find_file(facts)
    if path:
        source = Opened(str(path), _read_checked(path, dataset, split))
        count = facts.rows_in_file
    else:
        source = open_published(dataset, split, labelled=gold == "label")
        count = facts.row_count
    if gold:
        count = facts.gold_count
        if dataset.gold_of:
            source = replace(source, records=_with_gold(source.records, dataset.gold_of, gold))
    return replace(source, records=_uniform(source, dataset, split, gold, count))


def _splits_with(dataset: Dataset, gold: str) -> list[str]:
    """The names of the splits whose rows have a score or label."""
    if not any(gold in row_type._fields for row_type in dataset.row_types):
        return []
    return [split for split, facts in dataset.splits.items() if facts.gold_count]


def _uniform(source: Opened, dataset: Dataset, split: str, gold: str, expected: int) -> Records:
    """The records, or those with a value in `gold`.

    It raises `InputError` at the end if they are not as many as expected.
    """
    count = 0
    for number, record in source.records:
        if gold and record.get(gold) == "":
            continue
        count += 1
        if dataset.blank and not str(record["sentence"]).strip():
            record = {**record, "sentence": dataset.blank}
        label = dataset.labels.get(str(record.get("label")))
        if label:
            record = {**record, "label": label}
        yield number, record
    if expected not in (count, -1):
        rows = f"{count:,} rows of {dataset.name}:{split}"
        raise InputError(f"{source.place}: {rows}, not {expected:,}: it is not the published data")


def _with_gold(records: Records, name: str, gold: str) -> Records:
    """Gives a record without a value in `gold` that of another dataset.

    It is the value of the first pair there that has the same letters.
    """
    gold_of_pair: dict[tuple[bytes, bytes], object] = {}
    for split in DATASETS[name].splits:
        for _, record in _open(name, split, gold).records:
            gold_of_pair.setdefault(_pair(record), record[gold])

    def with_gold() -> Records:
        for number, record in records:
            if not record.get(gold):
                record = {**record, gold: gold_of_pair.get(_pair(record), "")}
            yield number, record

    return with_gold()


def _pair(record: Record) -> tuple[bytes, bytes]:
    return normalized(str(record["sentence1"])), normalized(str(record["sentence2"]))


def _read_checked(path: Path, dataset: Dataset, split: str) -> Records:
    """The records of a split's file.

    The file is read for its hash first, so no record of a wrong file is given.
    """
    facts = dataset.splits[split]
    with opened(path) as file:
        # BinaryIO has no readinto for mypy.
        digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    if digest != facts.sha256:
        raise InputError(
            f"{path}: the SHA-256 of its content is {digest}, but of the dataset's {facts.sha256}"
        )
    names = facts.names_in_file or (split,)
    for number, record in read_file(path):
        # A file with one split may have no column that names it.
        is_of_split = record.get("split", names[0]) in names
        if is_of_split and dataset.subset in ("", record.get("subset")):
            yield number, record

"""Rows out of whatever a user names: files, patterns, standard input, the hub, datasets, Python lists.

Every source is looked at when `read` is called, so that a wrong name fails before any work is done; then they
are streamed one after another.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from isotune.data.datasets import DATASETS, ScoredPairs, dataset_rows, scored_pairs, to_scored_pairs
from isotune.data.derived import make_rows
from isotune.data.hub import HubSource, read_hub
from isotune.data.records import read_file, read_text
from isotune.data.rows import Pair, R, Records, Row, ScoredPair
from isotune.errors import InputError, unknown

Source: TypeAlias = str | Path | Iterable[str | Row | tuple[object, ...]]


def read(
    sources: str | Path | Sequence[Source],
    row: type[R],
    columns: Mapping[str, str] | None = None,
    *,
    min_words: int | None = None,
    min_score: float | None = None,
) -> Iterator[R]:
    """Streams the rows of all sources; memory does not grow with their size.

    Args:
        sources: Each a file (.txt, .csv, .tsv, .jsonl, these also with .gz, or .parquet), a glob pattern, "-"
            for lines on standard input, "hub:owner/name" or "hub:owner/name:split", the name of a dataset as
            "name" (all of its splits) or "name:split", or an iterable of sentences or of rows.
        row: The kind of row to make. `Sentence` takes every text column of a source with several. `Pair` and
            `Triplet` are made from labelled pairs too (`data/derived.py`); memory then grows with the premises.
        columns: field -> column, for columns that don't have one of the usual names.
        min_words: A row is left out if one of its texts has fewer words, split at white space.
        min_score: For `Pair`: those of scored pairs that have at least this score, on the source's own scale.

    Raises:
        InputError: A source is missing or malformed. What is wrong inside it is found while streaming.
    """
    if isinstance(sources, (str, Path)):
        sources = [sources]
    if not sources:
        raise InputError("no data: give at least one file or dataset")
    if min_score is not None and row is not Pair:
        raise InputError(f"min_score chooses pairs among scored ones: it can't be given for {row.__name__} rows")
    opened = [_open(source, row, columns, min_words, min_score) for source in sources]
    return chain.from_iterable(chain.from_iterable(opened))


def read_scored_pairs(source: str | Path, split: str = "dev", columns: Mapping[str, str] | None = None) -> ScoredPairs:
    """Scored pairs to evaluate on, out of any source of `read`.

    Args:
        source: "name" or "name:split" of a dataset, or a file with sentence1, sentence2, score and, if it has
            parts to score apart, subset.
        split: Which split of a dataset, where `source` doesn't say.
        columns: field -> column, for columns of a file that don't have one of the usual names.

    Raises:
        InputError: The source can't be read, or no correlation with its scores can be computed.
    """
    name, asked = _name_and_split(source)
    if name in DATASETS:
        pairs = scored_pairs(name, asked or split)
    else:
        pairs = to_scored_pairs(str(source), "", _records(source, ScoredPair), columns)
    if len(set(pairs.scores)) < 2:
        raise InputError(f"{source}: the scores have no variance, so that a correlation is undefined")
    return pairs


def _open(
    source: Source, row: type[R], columns: Mapping[str, str] | None, min_words: int | None, min_score: float | None
) -> list[Iterator[R]]:
    """The rows of a source, file by file."""
    name, split = _name_and_split(source)
    if name in DATASETS:
        return [dataset_rows(name, split or None, row, columns, min_words=min_words, min_score=min_score)]
    return [
        make_rows(place, records, row, columns, min_words=min_words, min_score=min_score)
        for place, records in _records(source, row)
    ]


def _name_and_split(source: Source) -> tuple[str, str]:
    """The parts of "name:split"; a `Path` is always a file."""
    name, _, split = source.partition(":") if isinstance(source, str) else ("", "", "")
    return name, split


def _records(source: Source, row: type[R]) -> list[tuple[str, Records]]:
    """(name, records) of each file that a source is, or of the one stream."""
    if not isinstance(source, (str, Path)):
        return [("<rows>", _given(source, row))]
    if source == "-":
        if sys.stdin is None:
            raise InputError("-: standard input is closed; name a file, or pipe text in")
        return [("<stdin>", read_text(sys.stdin.buffer, "<stdin>"))]
    if str(source).startswith("hub:"):
        repository, _, split = str(source).removeprefix("hub:").partition(":")
        return [(str(source), read_hub(HubSource.parse(repository), split or "train"))]
    return [(str(path), read_file(path)) for path in _files(source)]


def _files(source: str | Path) -> list[Path]:
    name = str(source)
    if os.path.exists(name):  # a file whose name looks like a pattern is that file
        return [Path(name)]
    if glob.has_magic(name):
        files = [Path(path) for path in sorted(glob.glob(name, recursive=True)) if os.path.isfile(path)]
        if not files:
            raise InputError(f"{name}: no file matches this pattern")
        return files
    if isinstance(source, str) and os.path.basename(name) == name and "." not in name:
        raise unknown("file or dataset", name, DATASETS)
    raise InputError(f"{name}: no such file")


def _given(items: Iterable[str | Row | tuple[object, ...]], row: type[R]) -> Records:
    """Records of Python objects: a string is a sentence, a tuple a row of its own kind or else of `row`."""
    for number, item in enumerate(items, 1):
        values = (item,) if isinstance(item, str) else item
        fields = ("sentence",) if isinstance(item, str) else getattr(item, "_fields", row._fields)
        if not isinstance(values, tuple) or len(values) != len(fields):
            raise InputError(f"<rows>:{number}: a string or ({', '.join(fields)}) is needed, not {item!r:.100}")
        yield number, dict(zip(fields, values, strict=True))

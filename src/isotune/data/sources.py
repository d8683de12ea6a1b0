"""Reads rows from what a user names: files, patterns, the hub, named datasets, Python objects.

`read` looks at every source when it is called, so a wrong name fails before any work is done. The
rows are then streamed, source after source.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from isotune.data.catalogue import DATASETS
from isotune.data.datasets import dataset_records
from isotune.data.derived import RowQuery, make_rows
from isotune.data.hub import HubSource, open_hub
from isotune.data.records import (
    STDIN_NAME,
    Opened,
    class_columns,
    name_classes,
    read_file,
    read_text,
    refuse_same_names,
    table_records,
)
from isotune.data.rows import (
    Pair,
    R,
    Record,
    Records,
    Row,
    ScoredPair,
    Sentence,
    is_missing,
    to_rows,
)
from isotune.errors import InputError, as_input_error, unknown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FromPython: TypeAlias = str | Row | tuple[object, ...] | Mapping[str, object]
"""A sentence, a row or a record."""

Source: TypeAlias = str | Path | Iterable[FromPython]

ROWS = "<rows>"
"""The name of rows from Python in error messages."""

INDEX = "__index_level_"
"""The beginning of the name that pandas gives to an index without a name."""


def read(
    sources: Source | Sequence[Source],
    row_type: type[R],
    columns: Mapping[str, str] | None = None,
    *,
    min_words: int | None = None,
    min_score: float | None = None,
    positive: str | None = None,
    labels: Sequence[str] = (),
) -> Rows[R]:
    """Streams the rows of all sources; memory does not grow with their size.

    Args:
        sources: each is one of: a file (.txt, .csv, .tsv, .jsonl, each also with .gz, or .parquet);
            a glob pattern; "-" for lines on standard input;
            `hub:owner/name[@revision][/config][:split]` or "hub:owner/name/file", with one of the
            endings above; a dataset as "name" (all of its splits) or "name:split"; a table (pandas,
            polars, Arrow, `datasets`); an iterable of sentences, of rows or of dicts.
        row_type: the row type to make. `Sentence` takes every text column of a source. `Pair` and
            `Triplet` are made from labelled pairs too (`data/derived.py`); for triplets, memory
            grows with the premises.
        columns: field -> column, for columns that do not have a usual name.
        min_words: rows with a text of fewer words (split at white space) are left out.
        min_score: for `Pair`: scored pairs with at least this score, on the source's own scale, are
            taken.
        positive: for `Pair`: labelled pairs with this label are taken, in any case.
        labels: the labels that labelled rows can have; empty if they can have any.

    Raises:
        InputError: a source is missing or malformed. What is wrong inside a source is found while
            streaming.
    """
    sources = several(sources)
    if isinstance(labels, str):
        labels = [labels]
    if min_score is not None:
        _require_pairs(row_type, "min_score", "scored")
    if positive is not None:
        _require_pairs(row_type, "positive", "labelled")
    if min_score is not None and positive is not None:
        raise InputError("min_score and positive are both given; give one of them")
    query = RowQuery(
        row_type,
        columns=columns or {},
        labels=labels,
        min_words=min_words,
        min_score=min_score,
        positive=(positive or "").casefold(),
    )
    return Rows(sources, query)


def _require_pairs(row_type: type[R], option: str, kind: str) -> None:
    """Raises `InputError` for an option that makes pairs, if other rows are asked for."""
    if row_type is not Pair:
        raise InputError(
            f"{option} chooses pairs among {kind} ones: it can't be given for {row_type.__name__} "
            "rows"
        )


def several(sources: Source | Sequence[Source]) -> Sequence[Source]:
    """The sources, of which a name or a table is a single one."""
    if isinstance(sources, (str, Path)) or not isinstance(sources, Sequence):
        return [sources]
    if not sources:
        raise InputError("no data: give at least one file or dataset")
    return cast(Sequence[Source], sources)


class Rows(Iterator[R]):
    """The rows of sources.

    All sources are looked at when the object is made; their files are opened later.

    Attributes:
        commits: for each place on the hub, the commit that is read.
    """

    def __init__(self, sources: Sequence[Source], query: RowQuery[R]) -> None:
        self.commits: dict[str, str] = {}
        parts = []
        for source in sources:
            name, _ = _name_and_split(source)
            source_query = query
            if name in DATASETS and not query.positive:
                source_query = replace(query, positive=DATASETS[name].positive)
            for file in read_records(source, source_query):
                self.commits |= file.commits
                parts.append(make_rows(file.place, file.records, source_query))
        self._rows = chain.from_iterable(parts)

    def __next__(self) -> R:
        return next(self._rows)


def read_records(source: Source, query: RowQuery[R]) -> list[Opened]:
    """Each file of a source, or its stream or place on the hub; the records have all columns."""
    # Whether a number of a class column is read as the name of the class.
    labelled = query.row_type not in (Sentence, ScoredPair) and query.min_score is None
    name, split = _name_and_split(source)
    if name in DATASETS:
        return dataset_records(name, split, query)
    if not isinstance(source, (str, Path)):
        rows = checked_rows(source)
        records = _from_python(rows, query.row_type)
        if labelled:
            records = name_classes(ROWS, records, _classes_of(rows))
        return [Opened(ROWS, records)]
    if source == "-":
        if sys.stdin is None:
            raise InputError("-: standard input is closed; name a file, or pipe text in")
        return [Opened(STDIN_NAME, read_text(sys.stdin.buffer, STDIN_NAME))]
    if str(source).startswith("hub:"):
        place, _, split = str(source).removeprefix("hub:").partition(":")
        hub_source = open_hub(HubSource.parse(place), split, labelled=labelled)
        return [replace(hub_source, place=str(source))]
    files = []
    for path in files_of(source):
        records = read_file(path)
        if labelled:
            records = name_classes(str(path), records)
        files.append(Opened(str(path), records))
    return files


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """N sentence pairs with gold scores, to evaluate on."""

    name: str
    """The name of the dataset, or the path of the file."""

    split: str
    """Empty for a file."""

    sentence1: list[str]
    """N sentences."""

    sentence2: list[str]
    """N sentences."""

    scores: NDArray[np.float64]
    """[N] float64, on the dataset's own scale. Higher is more similar."""

    subsets: list[str]
    """N names of the subset that each pair belongs to. Without subsets, each is `name`."""

    @property
    def source(self) -> str:
        """The dataset's "name:split", or the path of the file."""
        return ":".join(filter(None, (self.name, self.split)))


def read_scored_pairs(
    source: Source, split: str = "dev", columns: Mapping[str, str] | None = None
) -> ScoredPairs:
    """Reads scored pairs to evaluate on.

    `source` is any source of `read`, such as a dataset's "name:split", or "name" and `split`, or a
    file with the columns sentence1, sentence2, score and, if its subsets are to be scored apart,
    subset. `columns` (field -> column) names columns of a file that do not have a usual name.

    Raises:
        InputError: the source can't be read, or no correlation with its scores can be computed.
    """
    import numpy as np

    name, named_split = _name_and_split(source)
    lowest, highest = -np.inf, np.inf
    if name in DATASETS:
        split = named_split or split
        lowest, highest = DATASETS[name].scores
        source = f"{name}:{split}"
    else:
        if name == "hub":
            _require_split(source, named_split)
        name = str(source) if isinstance(source, str | Path) else ROWS
        split = ""
    pairs: list[ScoredPair] = []
    subsets: list[str] = []
    for file in read_records(source, RowQuery(ScoredPair)):
        records = list(file.records)
        pairs += to_rows(file.place, records, ScoredPair, columns)
        subsets += [str(record.get("subset", name)) for _, record in records]
    sentence1, sentence2, gold = map(list, zip(*pairs, strict=True))
    scores = np.array(gold, np.float64)
    if not ((lowest <= scores) & (scores <= highest)).all():
        raise InputError(
            f"{name}:{split}: its scores should lie between {lowest:g} and {highest:g} and don't "
            "all"
        )
    if len(set(scores)) < 2:
        raise InputError(f"{name}: the scores have no variance, so that a correlation is undefined")
    return ScoredPairs(name, split, sentence1, sentence2, scores, subsets)


def _require_split(source: Source, place: str) -> None:
    """Raises `InputError` for a dataset on the hub, "owner/name", without the name of a split."""
    repository, colon, _ = place.partition(":")
    if not colon and not HubSource.parse(repository).file:
        raise InputError(f"{source}: name the split to evaluate on, such as {source}:test")


def _name_and_split(source: Source) -> tuple[str, str]:
    """What stands before and after the first colon of a source; nothing for a path or rows."""
    if not isinstance(source, str):
        return "", ""
    name, _, split = source.partition(":")
    return name, split


def files_of(source: str | Path) -> list[Path]:
    """The files that a path or pattern names, by their names' order."""
    name = str(source)
    # A file whose name looks like a pattern is that file.
    if os.path.exists(name):
        return [Path(name)]
    advice = ""
    if " " in name:
        advice = "; sentences are no sources: in Python they are given as rows=[...]"
    # A NUL byte can be in no name, and glob stops at it.
    if glob.has_magic(name) and "\0" not in name:
        paths = sorted(glob.glob(name, recursive=True))
        files = [Path(path) for path in paths if os.path.isfile(path)]
        if not files:
            file, _, _ = name.rpartition("*")
            if os.path.isfile(file):
                advice = f"; a share is a number above 0, as in {file}*0.5"
            raise InputError(f"{name:.200}: no file matches this pattern{advice}")
        return files
    # A name with one of these signs was meant as a path or a sentence, also one of Windows.
    if isinstance(source, str) and not set(name) & set("/\\. "):
        raise unknown("file or dataset", name, DATASETS)
    raise InputError(f"{name:.200}: no such file{advice}")


def checked_rows(rows: Any) -> Iterable[Any]:
    """The rows, if they are several objects; raises `InputError` for a single text or name."""
    if isinstance(rows, str | bytes | Path | Mapping) or not (
        is_table(rows) or isinstance(rows, Iterable)
    ):
        raise InputError(
            "rows: a table, or a list of sentences, of rows such as Pair('a', 'b') or of dicts is "
            f"needed, not {rows!r:.80}; files and datasets are given first, as sources"
        )
    return cast(Iterable[Any], rows)


def is_table(rows: object) -> bool:
    """Whether rows are a table with Arrow's interface (pandas, polars, Arrow), and no column."""
    return hasattr(rows, "__arrow_c_stream__") and (
        hasattr(rows, "columns") or hasattr(rows, "schema")
    )


def items_of(rows: Iterable[Any]) -> Iterator[Any]:
    """The rows one by one; those of a table are records."""
    if not is_table(rows):
        # A `datasets.Dataset` may be set to give tensors.
        if _classes_of(rows) is not None and hasattr(rows, "with_format"):
            rows = rows.with_format(None)
        yield from rows
        return
    import pyarrow as pa

    # pandas raises these for columns with values of several kinds, or with the same name.
    kinds = (pa.ArrowException, KeyError, OverflowError, TypeError, ValueError)
    advice = "; give each column a name of its own, and values of one kind"
    first = 1
    with as_input_error(kinds, "rows: the table can't be read", advice):
        for batch in pa.RecordBatchReader.from_stream(rows):
            names = [name for name in batch.schema.names if not name.startswith(INDEX)]
            refuse_same_names(names, ROWS)
            for _, record in table_records(batch.select(names), ROWS, first):
                yield record
            first += len(batch)


def _from_python(rows: Iterable[Any], row_type: type[R]) -> Records:
    """Records of Python objects.

    A string is a sentence, a dict is a record, and a plain tuple is a row of `row_type`.
    """
    number = 0
    for number, item in enumerate(items_of(rows), 1):
        if isinstance(item, Mapping):
            yield number, item
        else:
            yield number, _record_of(item, row_type, f"{ROWS}:{number}")
    if number == 0 and hasattr(rows, "__next__"):
        raise InputError(
            f"{ROWS}: no rows: a generator, or another iterator, gives its rows once, and this one "
            "is empty or was read before; give a list of the rows"
        )


def _record_of(item: Any, row_type: type[R], place: str) -> Record:
    if isinstance(item, str):
        return {"sentence": item}
    # A missing sentence is a blank one, as in a table.
    if row_type is Sentence and is_missing(item):
        return {"sentence": ""}
    fields = getattr(item, "_fields", row_type._fields)
    if not isinstance(item, tuple) or len(item) != len(fields):
        row = f"{row_type.__name__}({', '.join(fields)})"
        raise InputError(f"{place}: a string, a dict or {row} is needed, not {item!r:.100}")
    return dict(zip(fields, item, strict=True))


def _classes_of(rows: object) -> dict[str, Sequence[str]] | None:
    """For each class column of a `datasets.Dataset`, the names; None for other rows."""
    features = getattr(rows, "features", None)
    if not isinstance(features, Mapping):
        return None
    return class_columns(features)

"""Reads rows from whatever a user names: files, patterns, standard input, the hub, named datasets, Python objects.

`read` looks at every source when it is called, so a wrong name fails before any work is done. The rows are then
streamed, source after source.
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
from isotune.data.records import Opened, read_file, read_text
from isotune.data.rows import Pair, R, Records, Row, ScoredPair, Sentence, to_rows
from isotune.errors import InputError, telling, unknown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FromPython: TypeAlias = (
    str | Row | tuple[object, ...] | Mapping[str, object]
)  # a sentence, a row or a record
Source: TypeAlias = str | Path | Iterable[FromPython]
INDEX = "__index_level_"  # what pandas names an index without a name
ROWS_AT_ONCE = 1_000  # rows of a table that become Python's objects together


def read(
    sources: Source | Sequence[Source],
    row_type: type[R],
    columns: Mapping[str, str] | None = None,
    *,
    min_words: int | None = None,
    min_score: float | None = None,
    positive: str | None = None,
) -> Rows[R]:
    """Streams the rows of all sources; memory does not grow with their size.

    Args:
        sources: each is one of: a file (.txt, .csv, .tsv, .jsonl, each also with .gz, or .parquet); a glob pattern;
            "-" for lines on standard input; `hub:owner/name[@revision][/config][:split]` or "hub:owner/name/file", with
            one of the endings above; a dataset as "name" (all of its splits) or "name:split"; a table (pandas, polars,
            Arrow, `datasets`); an iterable of sentences, of rows or of dicts.
        row_type: the row type to make. `Sentence` takes every text column of a source. `Pair` and `Triplet` are made
            from labelled pairs too (`data/derived.py`); for triplets, memory grows with the premises.
        columns: field -> column, for columns that do not have a usual name.
        min_words: rows with a text of fewer words (split at white space) are left out.
        min_score: for `Pair`: scored pairs with at least this score, on the source's own scale, are taken.
        positive: for `Pair`: labelled pairs with this label are taken, in any case.

    Raises:
        InputError: a source is missing or malformed. What is wrong inside a source is found while streaming.
    """
    sources = several(sources)
    for option, value, kind in (
        ("min_score", min_score, "scored"),
        ("positive", positive, "labelled"),
    ):
        if value is not None and row_type is not Pair:
            row = row_type.__name__
            raise InputError(
                f"{option} chooses pairs among {kind} ones: it can't be given for {row} rows"
            )
    if min_score is not None and positive is not None:
        raise InputError("min_score and positive are both given; give one of them")
    return Rows(
        sources,
        RowQuery(row_type, columns or {}, min_words, min_score, (positive or "").casefold()),
    )


def several(sources: Source | Sequence[Source]) -> Sequence[Source]:
    """The sources, of which a name or a table is a single one."""
    if isinstance(sources, (str, Path)) or not isinstance(sources, Sequence):
        return [sources]
    if not sources:
        raise InputError("no data: give at least one file or dataset")
    return cast(Sequence[Source], sources)


class Rows(Iterator[R]):
    """The rows of sources. All sources are looked at when the object is made; their files are opened later."""

    def __init__(self, sources: Sequence[Source], query: RowQuery[R]) -> None:
        self.commits: dict[str, str] = {}  # place on the hub -> the commit that is read
        parts = []
        for source in sources:
            name, _ = _name_and_split(source)
            known = DATASETS[name].positive if name in DATASETS else ""
            of_source = replace(query, positive=query.positive or known)
            for file in read_records(source, of_source):
                self.commits |= file.commits
                parts.append(make_rows(file.place, file.records, of_source))
        self._rows = chain.from_iterable(parts)

    def __next__(self) -> R:
        return next(self._rows)


def read_records(source: Source, query: RowQuery[R]) -> list[Opened]:
    """Each file of a source, or its stream or place on the hub; the records have all columns."""
    name, split = _name_and_split(source)
    if name in DATASETS:
        return dataset_records(name, split, query)
    if not isinstance(source, (str, Path)):
        return [Opened("<rows>", _from_python(checked_rows(source), query.row_type))]
    if source == "-":
        if sys.stdin is None:
            raise InputError("-: standard input is closed; name a file, or pipe text in")
        return [Opened("<stdin>", read_text(sys.stdin.buffer, "<stdin>"))]
    if str(source).startswith("hub:"):
        dataset, _, split = str(source).removeprefix("hub:").partition(":")
        # Whether a record's label, if there is one, is read as the name of a class.
        labelled = query.row_type not in (Sentence, ScoredPair) and query.min_score is None
        return [
            replace(open_hub(HubSource.parse(dataset), split, labelled=labelled), place=str(source))
        ]
    return [Opened(str(path), read_file(path)) for path in files_of(source)]


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """N sentence pairs with gold scores, to evaluate on."""

    name: str  # the name of the dataset, or the path of the file
    split: str  # empty for a file
    sentence1: list[str]  # N sentences
    sentence2: list[str]  # N sentences
    scores: NDArray[np.float64]  # [N] float64, on the dataset's own scale; higher is more similar
    subsets: list[
        str
    ]  # N names of the subset that each pair belongs to; `name` for every pair if there are no subsets

    @property
    def source(self) -> str:
        """The dataset's "name:split", or the path of the file."""
        return ":".join(filter(None, (self.name, self.split)))


def read_scored_pairs(
    source: Source, split: str = "dev", columns: Mapping[str, str] | None = None
) -> ScoredPairs:
    """Reads scored pairs to evaluate on.

    `source` is any source of `read`, such as a dataset's "name:split", or "name" and `split`, or a file with
    the columns sentence1, sentence2, score and, if its subsets are to be scored apart, subset. `columns` (field ->
    column) names columns of a file that do not have a usual name.

    Raises:
        InputError: the source can't be read, or no correlation with its scores can be computed.
    """
    import numpy as np

    name, named_split = _name_and_split(source)
    is_known = name in DATASETS
    if is_known:
        split = named_split or split
    elif (
        name == "hub"
        and not HubSource.parse(named_split.partition(":")[0]).file
        and ":" not in named_split
    ):
        raise InputError(f"{source}: name the split to evaluate on, such as {source}:test")
    else:
        name, split = str(source) if isinstance(source, str | Path) else "<rows>", ""
    pairs: list[ScoredPair] = []
    subsets: list[str] = []
    for file in read_records(f"{name}:{split}" if is_known else source, RowQuery(ScoredPair)):
        records = list(file.records)
        pairs += to_rows(file.place, records, ScoredPair, columns)
        subsets += [str(record.get("subset", name)) for _, record in records]
    sentence1, sentence2, gold = map(list, zip(*pairs, strict=True))
    scores = np.array(gold, np.float64)
    lowest, highest = DATASETS[name].scores if is_known else (-np.inf, np.inf)
    if not ((lowest <= scores) & (scores <= highest)).all():
        raise InputError(
            f"{name}:{split}: its scores should lie between {lowest:g} and {highest:g} and don't all"
        )
    if len(set(scores)) < 2:
        raise InputError(f"{name}: the scores have no variance, so that a correlation is undefined")
    return ScoredPairs(name, split, sentence1, sentence2, scores, subsets)


def _name_and_split(source: Source) -> tuple[str, str]:
    name, _, split = source.partition(":") if isinstance(source, str) else ("", "", "")
    return name, split


def files_of(source: str | Path) -> list[Path]:
    """The files that a path or pattern names, by their names' order."""
    name = str(source)
    sentences = (
        "; sentences are no sources: in Python they are given as rows=[...]" if " " in name else ""
    )
    if os.path.exists(name):  # a file whose name looks like a pattern is that file
        return [Path(name)]
    if glob.has_magic(name):
        files = [
            Path(path) for path in sorted(glob.glob(name, recursive=True)) if os.path.isfile(path)
        ]
        if not files:
            raise InputError(f"{name:.200}: no file matches this pattern{sentences}")
        return files
    if (
        isinstance(source, str)
        and os.path.basename(name) == name
        and "." not in name
        and not sentences
    ):
        raise unknown("file or dataset", name, DATASETS)
    raise InputError(f"{name:.200}: no such file{sentences}")


def checked_rows(rows: Any) -> Iterable[Any]:
    """The rows, if they are several objects; raises `InputError` for one text or name, which is none."""
    if isinstance(rows, str | bytes | Path | Mapping) or not (
        is_table(rows) or isinstance(rows, Iterable)
    ):
        raise InputError(
            f"rows: a table, or a list of sentences, of rows such as Pair('a', 'b') or of dicts is needed, not "
            f"{rows!r:.80}; files and datasets are given first, as sources"
        )
    return cast(Iterable[Any], rows)


def is_table(rows: object) -> bool:
    """Whether rows are a table with Arrow's interface (pandas, polars, Arrow), and not a single column."""
    return hasattr(rows, "__arrow_c_stream__") and (
        hasattr(rows, "columns") or hasattr(rows, "schema")
    )


def items_of(rows: Iterable[Any]) -> Iterator[Any]:
    """The rows one by one; those of a table are dicts."""
    if not is_table(rows):
        yield from rows
        return
    import pyarrow as pa

    kinds = (
        pa.ArrowException,
        KeyError,
        OverflowError,
    )  # of pandas' columns with values of several kinds
    with telling(kinds, "rows: the table can't be read"):
        for batch in pa.RecordBatchReader.from_stream(rows):
            batch = batch.select(
                [name for name in batch.schema.names if not name.startswith(INDEX)]
            )
            for start in range(0, len(batch), ROWS_AT_ONCE):
                yield from batch.slice(start, ROWS_AT_ONCE).to_pylist()


def _from_python(rows: Iterable[Any], row_type: type[R]) -> Records:
    """Records of Python objects: a string is a sentence, a dict a record, a plain tuple a row of `row_type`."""
    for number, item in enumerate(items_of(rows), 1):
        if isinstance(item, Mapping):
            yield number, item
            continue
        values = (item,) if isinstance(item, str) else item
        fields = (
            ("sentence",) if isinstance(item, str) else getattr(item, "_fields", row_type._fields)
        )
        if not isinstance(values, tuple) or len(values) != len(fields):
            row = f"{row_type.__name__}({', '.join(fields)})"
            raise InputError(
                f"<rows>:{number}: a string, a dict or {row} is needed, not {item!r:.100}"
            )
        yield number, dict(zip(fields, values, strict=True))

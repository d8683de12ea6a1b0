"""Predicts the rows of files, and writes them with all their columns and what is predicted.

A row gets the columns of `ADDED`: the label, the labels or the score, and the probability of each
label that is given. Rows are read, predicted and written some at a time; memory does not grow with
their number.
"""

import csv
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic_core import to_json

from isotune.data import Pair, Sentence
from isotune.data.derived import RowQuery
from isotune.data.records import Opened
from isotune.data.rows import Record, checked_columns, tell_blank, text_value
from isotune.data.sources import Source, read_records
from isotune.encoder.classifier import Classifier
from isotune.encoder.classifier_head import ClassifierHead, Outputs
from isotune.encoder.stream import Advance
from isotune.errors import InputError
from isotune.use.tables import to_tables

PREDICTED = "predicted"
PROBABILITY = "probability"
# What stands between several labels in a cell of a .csv or .tsv file.
SEPARATOR = "|"

Predicted = str | tuple[str, ...] | float
Chance = float | tuple[float, ...] | None
"""The probability of the label, of each of the labels, or none of a score."""


def _say_nothing(_: str) -> None:
    pass


class Prediction(NamedTuple):
    """A row of a file, and what is predicted for it."""

    place: str
    """Where the row was read, such as "reviews.csv:7"."""
    record: Record
    """All columns of the row."""
    text: str | tuple[str, str]
    predicted: Predicted
    probability: Chance

    def columns(self) -> dict[str, object]:
        """All columns, and those that are added."""
        added: dict[str, object] = {PREDICTED: self.predicted}
        if self.probability is not None:
            added[PROBABILITY] = self.probability
        return {**self.record, **added}


class _Waiting(NamedTuple):
    """A row that was read, and is not predicted yet."""

    place: str
    record: Record


def predict_rows(
    classifier: Classifier,
    sources: Sequence[Source],
    columns: Mapping[str, str] | None = None,
    most: int | None = None,
    advance: Advance | None = None,
    say: Callable[[str], object] = _say_nothing,
) -> Iterator[Prediction]:
    """Predicts the rows of all sources, in their order, without rows whose text is blank.

    All sources are opened before the first row is read. `columns` names the columns of the texts,
    by the fields of `Sentence`, or of `Pair` for a head of pairs. Without it, the columns that the
    classifier learned from are read where a source has them, and `say` is told so. No more than
    `most` rows are read; None stands for all.
    """
    row_type: type[Sentence] | type[Pair] = Sentence
    if classifier.head.settings.pairs:
        row_type = Pair
    query: RowQuery[Any] = RowQuery(row_type, columns=columns or {})
    files = [file for source in sources for file in read_records(source, query)]
    choose = partial(_chosen_columns, columns or {}, classifier.head, row_type, say)
    rows = chain.from_iterable(_rows(file, row_type, choose) for file in files)
    return _predicted(classifier, islice(rows, most), advance)


def _predicted(
    classifier: Classifier, rows: Iterable[tuple[_Waiting, Any]], advance: Advance | None
) -> Iterator[Prediction]:
    waiting: deque[_Waiting] = deque()

    def texts() -> Iterator[Any]:
        for row, text in rows:
            waiting.append(row)
            yield text

    for part, outputs in classifier.outputs(texts(), advance):
        texts_of_part: Sequence[Any] = part
        predictions: Sequence[Any] = classifier.head.predictions(outputs)
        chances = _chances(classifier.head, outputs)
        for text, predicted, chance in zip(texts_of_part, predictions, chances, strict=True):
            row = waiting.popleft()
            yield Prediction(row.place, row.record, text, predicted, chance)


def _chosen_columns(
    given: Mapping[str, str],
    head: ClassifierHead,
    row_type: type[Sentence] | type[Pair],
    say: Callable[[str], object],
    place: str,
    available: Sequence[str],
) -> Mapping[str, str]:
    """The columns that are given, or else those that the classifier learned from, if there."""
    learned = head.settings.columns
    if given or not learned or not set(learned) <= set(available):
        return given
    say(f"{place}: the text is read from {' and '.join(learned)}, as in training")
    return dict(zip(row_type._fields, learned, strict=True))


def _rows(
    file: Opened,
    row_type: type[Sentence] | type[Pair],
    choose: Callable[[str, Sequence[str]], Mapping[str, str]],
) -> Iterator[tuple[_Waiting, Any]]:
    """The rows of a file with a text, each with the text or the pair of texts."""
    names: tuple[str, ...] = ()
    blank = []
    is_empty = True
    for number, record in file.records:
        place = f"{file.place}:{number}"
        if not names:
            available = list(record)
            columns = choose(file.place, available)
            names = _text_columns(file.place, row_type, available, columns)
        missing = set(names) - record.keys()
        if missing:
            raise InputError(f"{place}: no column {min(missing)!r}")
        texts = tuple(text_value(record[name], name, place) for name in names)
        if "" in texts:
            blank.append(number)
            continue
        is_empty = False
        row = _Waiting(place, record)
        if row_type is Pair:
            yield row, texts
        else:
            yield row, texts[0]
    tell_blank(file.place, blank)
    if is_empty:
        raise InputError(f"{file.place}: nothing in it but blank lines or a header")


def _text_columns(
    place: str,
    row_type: type[Sentence] | type[Pair],
    available: list[str],
    columns: Mapping[str, str],
) -> tuple[str, ...]:
    """The columns of the texts; refuses several choices, and the names of what is added."""
    taken = [name for name in (PREDICTED, PROBABILITY) if name in available]
    if taken:
        raise InputError(
            f"{place}: it has a column {taken[0]!r} already; leave that out, what is predicted "
            "gets this name"
        )
    groups = checked_columns(place, row_type, available, columns)
    if len(groups) > 1:
        names = ", ".join(map(" + ".join, groups))
        raise InputError(
            f"{place}: it has several texts in a row ({names}); name one by columns, as "
            f"{row_type._fields[0]}=COLUMN"
        )
    return groups[0]


def _chances(head: ClassifierHead, outputs: Outputs) -> list[Chance]:
    """The probability of what is predicted for each text."""
    if head.kind == "score":
        return [None] * len(outputs)
    probabilities = head.probabilities(outputs).astype(np.float64).round(6)
    if head.kind == "single":
        return list(probabilities.max(axis=1).tolist())
    chances: list[Chance] = []
    for row, is_given in zip(probabilities, outputs > 0, strict=True):
        chances.append(tuple(row[is_given].tolist()))
    return chances


def writer_of(path: Path) -> Callable[[Path, Iterable[Prediction]], int]:
    """The function that writes predictions into a file whose name ends so.

    It gives the number of rows.

    Raises:
        InputError: there is none.
    """
    suffix = path.suffix.lower()
    if suffix not in WRITERS:
        raise InputError(f"{path}: predictions are written as {', '.join(WRITERS)}")
    return WRITERS[suffix]


def _write_csv(path: Path, predictions: Iterable[Prediction]) -> int:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        return _write_table(predictions, lambda cells, _: writer.writerow(cells))


def _write_tsv(path: Path, predictions: Iterable[Prediction]) -> int:
    with path.open("w", encoding="utf-8", newline="") as file:

        def write(cells: Sequence[str], place: str) -> None:
            for cell in cells:
                if set(cell) & {"\t", "\n", "\r"}:
                    raise InputError(
                        f"{place}: {cell!r:.50} has a tab or a new line, which no cell of a .tsv "
                        "can have; write a .csv"
                    )
            file.write("\t".join(cells) + "\n")

        return _write_table(predictions, write)


def _write_table(
    predictions: Iterable[Prediction], write: Callable[[Sequence[str], str], object]
) -> int:
    """Writes a header and the rows as cells, with the columns of the first row."""
    names: list[str] = []
    count = 0
    for prediction in predictions:
        row = prediction.columns()
        if not names:
            names = list(row)
            write(names, prediction.place)
        further = set(row) - set(names)
        if further:
            raise InputError(
                f"{prediction.place}: it has a column {min(further)!r} that the "
                "first row lacks; write a .jsonl or a .parquet"
            )
        write([_cell(row.get(name)) for name in names], prediction.place)
        count += 1
    return count


def _cell(value: object) -> str:
    """A value as the text of a cell."""
    match value:
        case None:
            return ""
        case str():
            return value
        case tuple():
            return SEPARATOR.join(map(str, value))
        case dict() | list():
            return to_json(value, fallback=str).decode()
    return str(value)


def _write_jsonl(path: Path, predictions: Iterable[Prediction]) -> int:
    count = 0
    with path.open("wb") as file:
        for prediction in predictions:
            row = to_json(prediction.columns(), bytes_mode="base64", inf_nan_mode="null")
            file.write(row + b"\n")
            count += 1
    return count


def _write_parquet(path: Path, predictions: Iterable[Prediction]) -> int:
    predictions = iter(predictions)
    first = next(predictions)
    # A label stays text, also where all of them are numbers.
    types = dict.fromkeys(first.columns(), pa.null())
    types[PREDICTED] = _type_of(first.predicted)
    rows = ((row.place, row.columns()) for row in chain([first], predictions))
    count = 0
    with (
        to_tables(rows, pa.schema(types)) as (schema, tables),
        pq.ParquetWriter(path, schema) as writer,
    ):
        for table in tables:
            writer.write_table(table)
            count += len(table)
    return count


def _type_of(predicted: Predicted) -> pa.DataType:
    match predicted:
        case str():
            return pa.string()
        case tuple():
            return pa.list_(pa.string())
    return pa.float64()


WRITERS: Mapping[str, Callable[[Path, Iterable[Prediction]], int]] = {
    ".csv": _write_csv,
    ".tsv": _write_tsv,
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
}
"""What writes predictions, by the ending of the file's name."""

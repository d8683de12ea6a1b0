"""The file of the rows that a run sets apart: `set-apart.csv` in the run folder.

The file has the columns and the format of the user's tables, so that the same commands read both.
For other sources it is .jsonl.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from isotune.data import LabelledSentence, Row, ScoredPair
from isotune.data.derived import RowQuery
from isotune.data.rows import (
    LIST_SEPARATOR,
    Record,
    copy_key,
    match_columns,
    text_fields,
    text_value,
)
from isotune.data.sources import files_of, read_records
from isotune.evaluation.task_rows import AMONG
from isotune.files import atomic_write
from isotune.recipes import Recipe
from isotune.training.apart import SetApart
from isotune.training.labels import LabelledData
from isotune.training.run_data import DividedRows, is_file

T = TypeVar("T")

STEM = "set-apart"
"""The name of the file without its ending."""

TABLES = (".csv", ".tsv")
"""The endings of tables that are written as they were."""


class ApartFile(NamedTuple):
    """The file of the rows that a run has set apart."""

    path: Path

    task: str
    """The name of the task that reads the file; empty if there is none."""


def write_rows_apart(divided: DividedRows, recipe: Recipe, folder: Path) -> ApartFile | None:
    """Writes the rows of a run that are set apart; None if the user has given the rows to test."""
    if isinstance(divided, LabelledData) and divided.options.test_data:
        return None
    records = list(_records_apart(divided, recipe))
    # A row that was made of several records is written itself.
    is_plain = len(records) == len(divided.test)
    if not is_plain:
        records = [_record_of(row, recipe) for row in divided.test]
    path = folder / f"{STEM}{_ending(records, recipe)}"
    _write(path, records)
    return ApartFile(path, _task(path, divided, recipe, list(records[0])))


def _records_apart(divided: DividedRows, recipe: Recipe) -> Iterator[Record]:
    """The records of the user's files with a text of the rows set apart.

    Rows with a common text stand on one side, so a text tells where a record stands. There are none
    if the rows were not read from files that can be read again.
    """
    sources = _sources(recipe)
    if not sources or not all(map(_can_be_read_again, sources)):
        return
    texts: set[bytes] = set()
    for row in divided.test:
        texts.update(copy_key(str(text)) for text in _texts(row, divided.row_type))
    for source in sources:
        for file in read_records(source, RowQuery(divided.row_type)):
            for number, record in file.records:
                columns = _columns(divided.row_type, list(record), recipe)
                place = f"{file.place}:{number}"
                found = [
                    copy_key(text_value(record[column], column, place))
                    for column in _texts(columns, divided.row_type)
                ]
                if not texts.isdisjoint(found):
                    yield record


def _texts(values: Sequence[T], row_type: type[Row]) -> Sequence[T]:
    """The texts, or their columns, of the values of a row or their columns."""
    return values[: len(text_fields(row_type))]


def _sources(recipe: Recipe) -> Sequence[str]:
    """The sources of the rows; none for rows from Python."""
    return recipe.inputs(recipe.stages[-1]).data


def _can_be_read_again(source: str) -> bool:
    """Whether a source names files; a pipe gives its rows once."""
    return is_file(source) and all(path.is_file() for path in files_of(source))


def _columns(row_type: type[Row], available: Sequence[str], recipe: Recipe) -> Sequence[str]:
    """The columns of a record, in the order of the row's fields; none if they don't fit."""
    for columns in match_columns(row_type, available, recipe.columns):
        return columns
    return ()


def _record_of(row: Row, recipe: Recipe) -> Record:
    """A row as a record with the columns that the recipe names."""
    values = row._asdict()
    if isinstance(row, LabelledSentence) and LIST_SEPARATOR in row.label:
        values["label"] = list(filter(None, row.label.split(LIST_SEPARATOR)))
    return {recipe.columns.get(field, field): value for field, value in values.items()}


def _ending(records: Sequence[Record], recipe: Recipe) -> str:
    """The ending of the user's files where all are tables alike; else .jsonl."""
    endings = {Path(source.removesuffix(".gz")).suffix for source in _sources(recipe)}
    headers = {tuple(record) for record in records}
    if len(endings) == len(headers) == 1:
        (ending,) = endings
        if ending in TABLES:
            return ending
    return ".jsonl"


def _write(path: Path, records: Sequence[Record]) -> None:
    with atomic_write(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        match path.suffix:
            case ".csv":
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(records[0])
                writer.writerows(record.values() for record in records)
            case ".tsv":
                # A quote is a plain character there, and no cell has a tab.
                file.write("\t".join(records[0]) + "\n")
                for record in records:
                    file.write("\t".join(map(str, record.values())) + "\n")
            case _:
                for record in records:
                    file.write(json.dumps(dict(record), ensure_ascii=False, default=str) + "\n")


def _task(path: Path, divided: DividedRows, recipe: Recipe, available: Sequence[str]) -> str:
    """The name of the task that reads the rows of the file; empty if there is none.

    Rows with labels are none: the run is judged by a classifier that saw the rows to train on.
    """
    columns = _columns(divided.row_type, available, recipe)
    if divided.row_type is ScoredPair:
        return f"{path},{','.join(columns)}"
    if not isinstance(divided, SetApart) or not divided.is_searched or not columns:
        return ""
    others = ""
    sources = _sources(recipe)
    if len(sources) == 1 and _can_be_read_again(sources[0]):
        others = f"{AMONG}{sources[0]}"
    question, answer = columns[:2]
    return f"retrieval:{path},{question},{answer}{others}"

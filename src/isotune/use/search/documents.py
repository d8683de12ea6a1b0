"""Documents: the texts of files with all their other columns.

A document's id is the value of a column, or the file and the number of the line. So the documents
of a file have the same ids each time that the file is read. Rows from Python need a column of ids.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from isotune.data.derived import RowQuery
from isotune.data.rows import (
    Cells,
    Record,
    Records,
    Sentence,
    checked_columns,
    tell_blank,
    text_value,
)
from isotune.data.sources import ROWS, Source, is_table, items_of, read_records, several
from isotune.errors import InputError

# The column that holds the ids if no other column is named.
ID = "id"


class Document(NamedTuple):
    """A text with an id, and what else is known about it: {column: value}."""

    id: str
    text: str
    columns: Mapping[str, object] = {}
    place: str = ""
    """Where the document was read, such as "notes.csv:7", unless the id says so."""


def read_documents(
    sources: Source | Sequence[Source],
    columns: Mapping[str, str] | None = None,
    id_column: str | None = None,
) -> Iterator[Document]:
    """Streams the documents of all sources; memory does not grow with their size.

    A record gives a document for each of its text columns, and a blank text gives none. Ids are in
    `id_column`, or else in the column "id"; where a file has none, an id is FILE:LINE. Of several
    text columns, the name is added to the id.
    """
    # All sources are opened before the first document is read.
    files = [
        file for source in several(sources) for file in read_records(source, RowQuery(Sentence))
    ]
    return chain.from_iterable(
        _documents(file.place, file.records, columns or {}, id_column) for file in files
    )


def as_documents(rows: Iterable[Any]) -> Iterator[Document]:
    """Documents as they are given; a document for each text of a table, or of dicts."""
    if isinstance(rows, str | Path):
        name = str(rows)
        raise InputError(f"documents: write read_documents({name!r}) to add the rows of a file")
    if isinstance(rows, Document | Mapping):
        raise InputError("documents: give a list, also of one document or row")
    if not is_table(rows) and not isinstance(rows, Iterable):
        raise InputError(f"documents: a list of documents, or a table, is needed, not {rows!r:.60}")
    rows = items_of(rows)
    first = list(islice(rows, 1))
    rows = chain(first, rows)
    if first and isinstance(first[0], Mapping):
        return read_documents([rows])
    return _checked(rows)


def _checked(rows: Iterable[Any]) -> Iterator[Document]:
    """Documents, and an error for anything else."""
    for number, row in enumerate(rows, 1):
        if isinstance(row, str):
            raise InputError(
                f"document {number}: {row!r:.60} is a text without an id, by which the index finds "
                "it again; write {'id': '1', 'text': '...'} or Document('1', '...')"
            )
        if not hasattr(row, "place"):
            raise InputError(
                f"document {number}: a Document, or a dict with id and text, is needed, "
                f"not {row!r:.60}"
            )
        yield row


def _documents(
    name: str, records: Records, columns: Mapping[str, str], id_column: str | None
) -> Iterator[Document]:
    """The documents of one source; its first record decides which columns hold texts and ids."""
    text_columns: list[str] = []
    id_name: str | None = None
    blank: list[int] = []
    for number, record in records:
        place = f"{name}:{number}"
        if not text_columns:
            groups = checked_columns(name, Sentence, list(record), columns)
            text_columns = [column for (column,) in groups]
            id_name = id_column or _usual_id(record, name, place)
        _refuse_missing(record, text_columns, id_name, place)
        document_id = _id(record, id_name, place)
        others = _other_columns(record, text_columns, id_name)
        told_place = "" if id_name is None else place
        for column in text_columns:
            text = text_value(record[column], column, place)
            if not text:
                blank.append(number)
                continue
            suffix = ""
            if len(text_columns) > 1:
                suffix = f":{column}"
            yield Document(document_id + suffix, text, others, told_place)
    tell_blank(name, blank)


def _usual_id(record: Record, name: str, place: str) -> str | None:
    """The column of ids where nobody has named one; None where places stand for ids."""
    if ID in record:
        return ID
    if name == ROWS:
        raise InputError(
            f"{place}: no id, by which the index finds a row again; give the rows a column "
            f"{ID!r}, or name another by read_documents(rows, id_column=...)"
        )
    return None


def _refuse_missing(
    record: Record, text_columns: Sequence[str], id_name: str | None, place: str
) -> None:
    """Refuses a record without a column of text or ids."""
    missing = set(text_columns) - record.keys()
    if id_name is not None and id_name not in record:
        missing.add(id_name)
    if missing:
        raise InputError(
            f"{place}: no column {min(missing)!r}; it has {', '.join(map(repr, record))}"
        )


def _id(record: Record, id_name: str | None, place: str) -> str:
    """The id of a record, which is its place if no column has ids."""
    if id_name is None:
        return place
    value = record[id_name]
    if value is None or not str(value).strip():
        raise InputError(f"{place}: {id_name} is blank; each row needs an id")
    return str(value).strip()


def _other_columns(record: Record, text_columns: Sequence[str], id_name: str | None) -> Record:
    """What a record has besides its texts and its id."""
    used = {*text_columns, id_name}
    others = {column: value for column, value in record.items() if column not in used}
    if isinstance(record, Cells):
        return Cells(others)
    return others

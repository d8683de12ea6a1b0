"""Documents: the texts of files with all their other columns.

A document's id is the value of a column, or the file and the number of the line. So the documents of a file have the
same ids each time that the file is read.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from isotune.data.derived import RowQuery
from isotune.data.rows import Cells, Records, Sentence, checked_columns, tell_blank, text_value
from isotune.data.sources import Source, items_of, read_records, several
from isotune.errors import InputError

ID = "id"  # the column that holds the ids if no other column is named


class Document(NamedTuple):
    """A text with an id, and what else is known about it: {column: value}."""

    id: str
    text: str
    columns: Mapping[str, object] = {}
    place: str = ""  # where it was read, such as "notes.csv:7", unless the id says so


def read_documents(
    sources: Source | Sequence[Source],
    columns: Mapping[str, str] | None = None,
    id_column: str | None = None,
) -> Iterator[Document]:
    """Streams the documents of all sources; memory does not grow with their size.

    A record gives a document for each of its text columns, and a blank text gives none. Ids are in `id_column`, or else
    in the column "id"; where there is none, an id is FILE:LINE. Of several text columns, the name is added to the id.
    """
    files = [
        file for source in several(sources) for file in read_records(source, RowQuery(Sentence))
    ]
    return chain.from_iterable(
        [_documents(file.place, file.records, columns or {}, id_column) for file in files]
    )


def as_documents(rows: Iterable[Any]) -> Iterator[Document]:
    """Documents as they are given; a document for each text of a table, or of dicts."""
    rows = items_of(rows)
    first = list(islice(rows, 1))
    rows = chain(first, rows)
    return read_documents([rows]) if first and isinstance(first[0], Mapping) else rows


def _documents(
    name: str, records: Records, columns: Mapping[str, str], id_column: str | None
) -> Iterator[Document]:
    text_columns: list[str] = []
    blank: list[int] = []
    for number, record in records:
        place = f"{name}:{number}"
        if not text_columns:  # the first record decides
            text_columns = [
                column for (column,) in checked_columns(name, Sentence, list(record), columns)
            ]
            key = id_column or (ID if ID in record else None)
        if missing := {*text_columns, *([key] if key else [])} - record.keys():
            raise InputError(
                f"{place}: no column {min(missing)!r}; it has {', '.join(map(repr, record))}"
            )
        value = record[key] if key else place
        document_id = "" if value is None else str(value).strip()
        if not document_id:
            raise InputError(f"{place}: {key} is blank; each row needs an id")
        others = {
            column: value for column, value in record.items() if column not in (*text_columns, key)
        }
        if isinstance(record, Cells):
            others = Cells(others)
        for column in text_columns:
            if text := text_value(record[column], column, place):
                suffix = f":{column}" if len(text_columns) > 1 else ""
                yield Document(document_id + suffix, text, others, place if key else "")
            else:
                blank.append(number)
    tell_blank(name, blank)

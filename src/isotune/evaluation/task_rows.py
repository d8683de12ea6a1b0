"""The user's own data of a task: how a task's name spells them, and rows from memory."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from isotune.data import LabelledSentence, Pair, Row, ScoredPair, read
from isotune.data.rows import R
from isotune.data.sources import Source
from isotune.errors import InputError, counted, unknown
from isotune.files import make_folder, write_text

Kind: TypeAlias = Literal["similarity", "retrieval", "classification"]
ROW_TYPES: Mapping[str, type[Row]] = {
    "similarity": ScoredPair,
    "retrieval": Pair,
    "classification": LabelledSentence,
}
"""The row type of each kind of task."""


AMONG = ",among="
"""What stands before the source of more texts among which a retrieval task searches."""


@dataclass(frozen=True, eq=False)
class TaskRows:
    """Rows from memory on which an encoder is judged.

    An example is `TaskRows("classification", table, ["text", "stars"])`.

    Attributes:
        kind: "similarity" (two texts and a score), "retrieval" (two texts, the second of which
            answers the first) or "classification" (a text and a label).
        rows: a table (pandas, polars, Arrow, `datasets`), or an iterable of rows or dicts.
        columns: of the texts, and after them of the score or label. If empty, the usual names, as
            `data.read` has them.
        name: of the task, in tables and reports.
    """

    kind: Kind
    rows: Source
    columns: Sequence[str] = ()
    name: str = "rows"

    def __post_init__(self) -> None:
        if self.kind not in ROW_TYPES:
            raise unknown("kind of task", self.kind, ROW_TYPES)
        if isinstance(self.columns, str):
            fields = ", ".join(ROW_TYPES[self.kind]._fields)
            raise InputError(
                f"columns: a list of columns is needed ({fields}), not {self.columns!r:.80}"
            )
        if not re.fullmatch(r"[\w. -]+", self.name):
            raise InputError(
                f"name {self.name!r:.80}: only letters, digits, spaces, dots, - and _ can be in it"
            )

    def read(self) -> list[Row]:
        """The rows; raises `InputError` where `data.read` does."""
        row_type = ROW_TYPES[self.kind]
        columns = named_columns(self.name, self.columns, row_type)
        try:
            return list(read([self.rows], row_type, columns))
        except InputError as error:
            # Errors of reading name the row, and not the task.
            raise InputError(f"{self.name}: {error}") from error

    def save(self, folder: Path) -> None:
        """Writes the rows into a file in the folder, which `name_in` names.

        Refuses a second task of this name.
        """
        make_folder(folder)
        file = folder / f"{self.name}.jsonl"
        if file.exists():
            raise InputError(f"two tasks have the name {self.name!r}; give TaskRows another name")
        lines = [json.dumps(row._asdict(), ensure_ascii=False) + "\n" for row in self.read()]
        write_text(file, "".join(lines))

    def name_in(self, folder: Path) -> str:
        """The name of the task that reads what `save` writes into this folder."""
        kind = "" if self.kind == "similarity" else f"{self.kind}:"
        return f"{kind}{os.path.abspath(folder / self.name)}.jsonl"


def place_and_others(source: str) -> tuple[str, str]:
    """What a task reads with its columns, and the source of more texts to search among, or ""."""
    place = _longest_place(source)
    columns, found, others = source.removeprefix(place).partition(AMONG)
    if found and not others:
        raise InputError(f"{source}: name the texts to search among behind {AMONG[1:]}")
    return f"{place}{columns}", others


def place_and_part(source: str) -> tuple[str, str]:
    """What a task reads, and which part: ("nfcorpus", ":dev"), ("notes.jsonl", ",title,body")."""
    place = _longest_place(source)
    folder, _, split = place.rpartition(":")
    if os.path.isdir(folder):
        return folder, f":{split}"
    return place, source.removeprefix(place)


def _longest_place(source: str) -> str:
    """The longest part up to a comma that is a file or folder, or else the first part.

    The name of a file may have commas too.
    """
    names = source.split(",")
    for count in range(len(names), 0, -1):
        place = ",".join(names[:count])
        if os.path.exists(place):
            return place
    return names[0]


def place_and_columns(source: Source, row_type: type[R]) -> tuple[Source, Mapping[str, str] | None]:
    """What a task of these rows reads, and the columns for `data.read`.

    The columns may stand behind a file's name.
    """
    if not isinstance(source, str):
        return source, None
    place, part = place_and_part(source)
    if not part.startswith(","):
        return source, None
    return place, named_columns(source, part[1:].split(","), row_type)


def rows_of(source: Source, row_type: type[R]) -> list[R]:
    """The rows of a source, whose columns may stand behind its name."""
    place, columns = place_and_columns(source, row_type)
    return list(read([place], row_type, columns))


def named_columns(
    name: object, columns: Sequence[str], row_type: type[R]
) -> Mapping[str, str] | None:
    """The columns by the fields of the row type; None if there are none."""
    if not columns:
        return None
    fields = row_type._fields
    if len(columns) != len(fields):
        raise InputError(
            f"{name}: {counted(len(columns), 'column')} named, and {len(fields)} needed: "
            f"{', '.join(fields)}"
        )
    return dict(zip(fields, columns, strict=True))

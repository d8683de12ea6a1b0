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
ROWS: Mapping[str, type[Row]] = {
    "similarity": ScoredPair,
    "retrieval": Pair,
    "classification": LabelledSentence,
}


@dataclass(frozen=True, eq=False)
class TaskRows:
    """Rows from memory on which an encoder is judged: `TaskRows("classification", table, ["text", "stars"])`.

    Attributes:
        kind: "similarity" (two texts and a score), "retrieval" (two texts, the second of which answers the first) or
            "classification" (a text and a label).
        rows: a table (pandas, polars, Arrow, `datasets`), or an iterable of rows or dicts.
        columns: of the texts, and after them of the score or label. If empty, the usual names, as `data.read` has them.
        name: of the task, in tables and reports.
    """

    kind: Kind
    rows: Source
    columns: Sequence[str] = ()
    name: str = "rows"

    def __post_init__(self) -> None:
        if self.kind not in ROWS:
            raise unknown("kind of task", self.kind, ROWS)
        if not re.fullmatch(r"[\w. -]+", self.name):
            raise InputError(
                f"name {self.name!r:.80}: only letters, digits, spaces, dots, - and _ can be in it"
            )

    def read(self) -> list[Row]:
        """The rows; raises `InputError` where `data.read` does."""
        row_type = ROWS[self.kind]
        return list(read([self.rows], row_type, named_columns(self.name, self.columns, row_type)))

    def save(self, folder: Path) -> None:
        """Writes the rows into a file in the folder, which `name_in` names; refuses a second task of this name."""
        make_folder(folder)
        if (file := folder / f"{self.name}.jsonl").exists():
            raise InputError(f"two tasks have the name {self.name!r}; give TaskRows another name")
        write_text(
            file,
            "".join(json.dumps(row._asdict(), ensure_ascii=False) + "\n" for row in self.read()),
        )

    def name_in(self, folder: Path) -> str:
        """The name of the task that reads what `save` writes into this folder."""
        kind = "" if self.kind == "similarity" else f"{self.kind}:"
        return f"{kind}{os.path.abspath(folder / self.name)}.jsonl"


def place_and_part(source: str) -> tuple[str, str]:
    """What a task reads, and which part: ("nfcorpus", ":dev"), ("notes.jsonl", ",title,body")."""
    names = source.split(",")
    places = [
        ",".join(names[:count]) for count in range(len(names), 0, -1)
    ]  # a file's name may have commas too
    place = next(filter(os.path.exists, places), names[0])
    folder, _, split = place.rpartition(":")
    return (folder, f":{split}") if os.path.isdir(folder) else (place, source.removeprefix(place))


def place_and_columns(source: Source, row_type: type[R]) -> tuple[Source, Mapping[str, str] | None]:
    """What a task of these rows reads, and the columns for `data.read`, which may stand behind a file's name."""
    place, part = place_and_part(source) if isinstance(source, str) else (source, "")
    if part.startswith(","):
        return place, named_columns(source, part[1:].split(","), row_type)
    return source, None


def rows_of(source: Source, row_type: type[R]) -> list[R]:
    """The rows of a source, whose columns may stand behind its name."""
    place, columns = place_and_columns(source, row_type)
    return list(read([place], row_type, columns))


def named_columns(
    name: object, columns: Sequence[str], row_type: type[R]
) -> Mapping[str, str] | None:
    """The columns by the fields of the row type; None if there are none."""
    if columns and len(columns) != len(row_type._fields):
        raise InputError(
            f"{name}: {counted(len(columns), 'column')} named, and {len(row_type._fields)} needed: "
            f"{', '.join(row_type._fields)}"
        )
    return dict(zip(row_type._fields, columns, strict=True)) if columns else None

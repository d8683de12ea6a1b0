"""How a command prints a table or JSON on standard output."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table
from rich.text import Text

from isotune.console import MOST_WIDTH, PlainConsole

# A column of a table needs a character, a space on both sides, and a line.
LEAST_COLUMN_WIDTH = 4


def stdout_console() -> PlainConsole:
    """Standard output; in a pipe, whole rows are printed, however long they are."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return PlainConsole()
    return PlainConsole(width=MOST_WIDTH)


def print_json(content: object) -> None:
    """Prints JSON: dates in ISO 8601, bytes as URL-safe base64, NaN and infinities as null."""
    from pydantic_core import to_json

    text = to_json(content, indent=2, bytes_mode="base64", inf_nan_mode="null", fallback=str)
    print(text.decode())


def print_list(
    as_json: bool,
    entries: Sequence[Mapping[str, object]],
    columns: Sequence[str | Column],
    rows: Iterable[Sequence[str | Text]],
) -> None:
    """Prints what there is: the entries as JSON, or a table of rows."""
    if as_json:
        print_json(entries)
    else:
        print_table(columns, rows)


def print_table(columns: Sequence[str | Column], rows: Iterable[Sequence[str | Text]]) -> None:
    """Prints a table with a line under its header and no frame."""
    table = Table(*columns, box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, show_edge=False)
    for row in rows:
        table.add_row(*row)
    print_whole(table)


def print_whole(table: Table) -> None:
    """Prints a table with all its columns; a terminal that is too narrow breaks the lines."""
    console = stdout_console()
    # One more line ends the table.
    least = LEAST_COLUMN_WIDTH * len(table.columns) + 1
    if console.width < least:
        console.width = least
    console.print(table)

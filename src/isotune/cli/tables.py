"""How a command prints a table or JSON on standard output."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text


def stdout_console() -> Console:
    """Standard output without rich's markup, colours and emoji: in nli:train, rich would read :train: as a picture."""
    width = (
        None if sys.stdout.isatty() or "COLUMNS" in os.environ else 10_000
    )  # a pipe gets whole rows
    return Console(highlight=False, markup=False, emoji=False, width=width)


def print_json(content: object) -> None:
    """Prints JSON. Dates become text in ISO 8601, bytes URL-safe base64, and NaN and infinity null."""
    from pydantic_core import to_json

    print(
        to_json(content, indent=2, bytes_mode="base64", inf_nan_mode="null", fallback=str).decode()
    )


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
    stdout_console().print(table)

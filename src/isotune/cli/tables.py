"""How a command prints a table or JSON on standard output."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text


def stdout_console() -> Console:
    """Standard output without rich's markup, colours and emoji: in nli:train, rich would read :train: as a picture."""
    return Console(highlight=False, markup=False, emoji=False)


def print_json(content: object) -> None:
    """Prints JSON; what JSON has no type for, such as a date, becomes text."""
    print(json.dumps(content, indent=2, ensure_ascii=False, default=str))


def print_table(columns: Sequence[str | Column], rows: Iterable[Sequence[str | Text]]) -> None:
    """Prints a table with a line under its header and no frame."""
    table = Table(*columns, box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for row in rows:
        table.add_row(*row)
    stdout_console().print(table)

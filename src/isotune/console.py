"""The console of rich that everything is printed on.

It shows a text as it was written, on a terminal of any width.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from rich.console import Console, ConsoleDimensions

# On fewer columns rich finds no room for a table, and the help of cyclopts never ends.
LEAST_WIDTH = 20
MOST_WIDTH = 10_000
SAID_EVERY = 15.0
"""Seconds of work after which a line says that it goes on."""


class PlainConsole(Console):
    """A console without rich's markup, emoji and highlighting.

    In stsb:train:, rich would read :train: as a picture. Lines have `LEAST_WIDTH` columns or more;
    a terminal that has fewer breaks them itself.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    @property
    def size(self) -> ConsoleDimensions:
        """The number of columns and lines that are printed on."""
        columns, lines = super().size
        return ConsoleDimensions(min(max(columns, LEAST_WIDTH), MOST_WIDTH), lines)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self.width, self.height = new_size


@contextmanager
def waiting(what: str, console: Console | None = None) -> Iterator[None]:
    """Says on standard error, or a console of it, what is done while the block runs.

    A terminal shows a moving sign. Elsewhere a line comes at once, and one every `SAID_EVERY`
    seconds.
    """
    console = console or PlainConsole(stderr=True)
    if console.is_terminal:
        with console.status(what):
            yield
        return
    console.print(what)
    with repeating(console, what):
        yield


@contextmanager
def repeating(console: Console, what: str) -> Iterator[None]:
    """Prints every `SAID_EVERY` seconds how long the block has run; not in a terminal."""
    if console.is_terminal:
        yield
        return
    over = Event()
    began = time.monotonic()

    def tell() -> None:
        while not over.wait(SAID_EVERY):
            console.print(f"{what}: {time.monotonic() - began:,.0f} seconds so far")

    thread = Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()

"""The console of rich that everything is printed on.

It shows a text as it was written, on a terminal of any width.
"""

from typing import Any

from rich.console import Console, ConsoleDimensions

# On fewer columns rich finds no room for a table, and the help of cyclopts never ends.
LEAST_WIDTH = 20
MOST_WIDTH = 10_000


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

"""Counts the pairs of a corpus whose second text is the first one again.

Such a pair teaches little: a text finds itself without any training.
"""

from collections.abc import Iterable, Iterator

from isotune.data.rows import Pair, R, Triplet


class EqualTexts:
    """Counts the rows whose first two texts are equal, while the rows pass."""

    def __init__(self) -> None:
        self.rows = 0
        """The pairs and triplets that have passed."""

        self.equal = 0
        """Those whose first two texts are equal."""

        self.example = ""
        """The first text that is equal to its second; empty if there is none."""

    def watch(self, rows: Iterable[R], row_type: type[R]) -> Iterator[R]:
        """Passes the rows of a corpus on; all are of one row type."""
        if row_type not in (Pair, Triplet):
            yield from rows
            return
        for row in rows:
            first, second = map(str, row[:2])
            self.rows += 1
            if first == second:
                self.equal += 1
                self.example = self.example or first
            yield row

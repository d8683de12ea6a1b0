"""Counts the texts of a corpus that are numbers, as where the wrong column is read as text."""

from collections.abc import Iterable, Iterator

from isotune.data.rows import R, text_fields


class NumberTexts:
    """Counts the texts that are numbers, while the rows pass."""

    def __init__(self) -> None:
        self.texts = 0
        """The texts that have passed."""

        self.numbers = 0
        """Those that are numbers."""

        self.example = ""
        """The first text that is a number; empty if there is none."""

    def watch(self, rows: Iterable[R], row_type: type[R]) -> Iterator[R]:
        """Passes the rows of a corpus on; all are of one row type."""
        width = len(text_fields(row_type))
        for row in rows:
            for text in map(str, row[:width]):
                self.texts += 1
                if _is_number(text):
                    self.numbers += 1
                    self.example = self.example or text
            yield row


def _is_number(text: str) -> bool:
    # float takes the words nan and infinity too.
    if not text[-1:].isdecimal():
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True

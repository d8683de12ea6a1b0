"""A share of a text that a run does not train on, for comparing encoders on it afterwards.

A hash of a sentence decides whether the sentence is held out. So copies of a sentence are on the
same side, a stream of any length can be divided, and every reader divides a text in the same way.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

from isotune.data.rows import R, normalized, text_fields
from isotune.errors import InputError

ONE_OF = 20
"""One of so many different sentences is held out."""


def is_held_out(text: str) -> bool:
    """Whether a text is held out; texts with the same letters and digits are on one side."""
    content = normalized(text) or text.encode()
    digest = blake2b(content, digest_size=8).digest()
    return int.from_bytes(digest, "little") % ONE_OF == 0


def without_held_out(rows: Iterable[R], row_type: type[R], source: str) -> Iterator[R]:
    """The rows of one type of which no text is held out.

    Raises:
        InputError: no row is left of the `source`, which the message names.
    """
    width = len(text_fields(row_type))
    is_empty = True
    for row in rows:
        if not any(is_held_out(str(text)) for text in row[:width]):
            is_empty = False
            yield row
    if is_empty:
        raise InputError(
            f"{source}: every row is held out, as one of {ONE_OF} different sentences is in a run "
            "with teachers, so none is left to train on; give more text"
        )

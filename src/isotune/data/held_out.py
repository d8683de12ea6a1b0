"""The sentences of a text that a run does not train on, for comparing encoders on them afterwards.

A hash of a sentence decides whether the sentence is held out. So copies of a sentence are held out
together, a stream of any length can be divided, and each reader of a text finds the same sentences.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

from isotune.data.rows import R, copy_key, text_fields
from isotune.errors import InputError

ONE_OF = 20
"""Of this many different sentences, one is held out on average."""


def is_held_out(text: str) -> bool:
    """Whether a text is held out. Texts with the same letters and digits have the same answer."""
    digest = blake2b(copy_key(text), digest_size=8).digest()
    number = int.from_bytes(digest, "little")
    return number % ONE_OF == 0


def without_held_out(rows: Iterable[R], row_type: type[R], source: str) -> Iterator[R]:
    """The rows whose texts are all trained on; a row has the type `row_type`.

    Raises:
        InputError: no row is left of the `source`, which the message names.
    """
    width = len(text_fields(row_type))
    is_empty = True
    for row in rows:
        texts = map(str, row[:width])
        if not any(map(is_held_out, texts)):
            is_empty = False
            yield row
    if is_empty:
        raise InputError(
            f"{source}: every row is held out, as one of {ONE_OF} different sentences is in a run "
            "with teachers, so none is left to train on; give more text"
        )

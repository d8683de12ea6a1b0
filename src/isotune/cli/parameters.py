"""Parameters that several commands have, and the files they write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from cyclopts import Parameter

from isotune.errors import InputError
from isotune.files import replacing

ENCODER = Parameter(
    help="An encoder or a plain language model: a folder, or a name on the Hugging Face hub; or a file of word vectors "
    "(.txt, .vec, also .gz), which are averaged."
)
PRECISION = Parameter(
    help="What the encoder computes in. bfloat16 and, on a CPU, int8 are faster and differ a little from float32. "
    "Unset: the type of its weights, mostly float32."
)
PROCESSES = Parameter(help="Runs side by side. Unset: one a GPU; without any a core, 4 at most.")
THREADS = Parameter(help="Of each process. Unset: their share of the cores.")
COLUMNS = Parameter(consume_multiple=1, metavar="FIELD=COLUMN...")


def columns_table(words: Sequence[str]) -> dict[str, str]:
    """{field: column} out of the words of --columns.

    Raises:
        InputError: a word has no "=", or nothing on one side of it.
    """
    for word in words:
        if not all(word.partition("=")):
            raise InputError(f"--columns {word}: write FIELD=COLUMN, such as sentence=body")
    return dict(word.split("=", 1) for word in words)


def labels(encoders: Sequence[str]) -> list[str]:
    """What a table or figure calls each encoder: its folder's name or that of its run; its whole name if two share it.

    >>> labels(["models/mini", "runs/demo/encoder"])
    ['mini', 'demo']
    """
    paths = [Path(encoder).resolve() for encoder in encoders]
    short = [(path.parent.name if path.name == "encoder" else "") or path.name for path in paths]
    return [one if short.count(one) == 1 else whole for one, whole in zip(short, encoders, strict=True)]


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that is there whole or not at all; that it can be made is found out before the work.

    Raises:
        InputError: there is one of that name, or it can't be written.
    """
    if path.exists():
        raise InputError(f"{path}: it exists already; name another file")
    try:
        with replacing(path) as part, part.open("wb") as file:
            yield file
    except OSError as error:
        raise InputError(f"{path}: it can't be written ({error.strerror or error}); name another file") from error

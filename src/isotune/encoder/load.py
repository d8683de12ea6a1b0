"""Loads whatever encodes sentences: an encoder from a folder or the hub, or a file of word vectors."""

from __future__ import annotations

from pathlib import Path

from isotune.encoder.encoder import Encoder
from isotune.encoder.precision import Precision
from isotune.encoder.word_vectors import WordVectors
from isotune.errors import InputError


def load_encoder(name: str | Path, precision: Precision | None = None) -> Encoder | WordVectors:
    """A file's word vectors; a folder's or the hub's encoder.

    Args:
        name: the file, folder or hub name.
        precision: as `Encoder.load` has it; word vectors are float32.

    Raises:
        InputError: it can't be loaded.
    """
    if not Path(name).is_file():
        return Encoder.load(name, precision=precision)
    if precision not in (None, "float32"):
        raise InputError(f"precision {precision}: word vectors ({name}) are averaged in float32 only")
    return WordVectors.load(name)

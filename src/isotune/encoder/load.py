"""Loads an encoder by name: a folder, a name on the Hugging Face hub, or a file of word vectors."""

from __future__ import annotations

from pathlib import Path

from isotune.encoder import Precision
from isotune.encoder.encoder import Encoder
from isotune.encoder.word_vectors import WordVectors
from isotune.errors import InputError


def load_encoder(name: str | Path, precision: Precision | None = None) -> Encoder | WordVectors:
    """Loads word vectors, which allow float32 only, if `name` is a file; an encoder, as `Encoder.load`, otherwise.

    Raises:
        InputError: the file or encoder can't be loaded, or not in this precision.
    """
    if not Path(name).is_file():
        return Encoder.load(name, precision=precision)
    if precision not in (None, "float32"):
        raise InputError(f"precision {precision}: word vectors ({name}) are averaged in float32 only")
    return WordVectors.load(name)

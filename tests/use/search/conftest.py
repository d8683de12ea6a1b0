"""A small index, made by the tiny model."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotune.encoder.encoder import Encoder
from isotune.use.search import Document, Index

LANGUAGES = ("en", "de")


@pytest.fixture(scope="session")
def encoder(tiny_model: Path) -> Encoder:
    return Encoder.load(tiny_model)


@pytest.fixture
def documents(sentences: list[str]) -> list[Document]:
    """Sixty documents in two languages, each with a year."""
    return [
        Document(f"d{i}", text, {"lang": LANGUAGES[i % 2], "year": 1990 + i % 5}) for i, text in enumerate(sentences)
    ]


@pytest.fixture
def index(tmp_path: Path, encoder: Encoder, documents: list[Document]) -> Index:
    index = Index.create(tmp_path / "index", encoder)
    index.add(documents)
    return index

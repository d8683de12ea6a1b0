"""A small index, made by the tiny model."""

import shutil
from pathlib import Path

import pytest

from isotune.encoder.encoder import Encoder
from isotune.use.search import Document, Index

LANGUAGES = ("en", "de")


@pytest.fixture(scope="session")
def encoder(tiny_model: Path) -> Encoder:
    return Encoder.load(tiny_model)


@pytest.fixture(scope="session")
def documents(sentences: list[str]) -> list[Document]:
    """Sixty documents in two languages, each with a year."""
    return [
        Document(f"d{i}", text, {"lang": LANGUAGES[i % 2], "year": 1990 + i % 5})
        for i, text in enumerate(sentences)
    ]


@pytest.fixture(scope="session")
def made_index(
    tmp_path_factory: pytest.TempPathFactory, encoder: Encoder, documents: list[Document]
) -> Path:
    """The folder of an index of the documents."""
    index = Index.create(tmp_path_factory.mktemp("made") / "index", encoder)
    index.add(documents)
    return index.folder


@pytest.fixture
def index(made_index: Path, tmp_path: Path, encoder: Encoder) -> Index:
    """A copy of the index, which the test may change."""
    return Index.open(shutil.copytree(made_index, tmp_path / "index"), encoder)

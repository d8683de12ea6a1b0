"""Searches by smaller vectors: the rows that they find, and how an index changes between them."""

from pathlib import Path

import numpy as np
import pytest

from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.use.search import Document, Index, store

QUERY = "the dog eats a red ball"
MANY = 300


@pytest.fixture(autouse=True)
def _few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "FEWEST_QUANTIZED", MANY)


@pytest.fixture
def many(sentences: list[str]) -> list[Document]:
    """Documents of two sentences each."""
    random = np.random.default_rng(0)
    rows = random.integers(len(sentences), size=(MANY, 2))
    return [
        Document(f"d{i}", f"{sentences[a]} {sentences[b]}", {"even": i % 2 == 0})
        for i, (a, b) in enumerate(rows)
    ]


@pytest.mark.parametrize("vectors", ["int8", "binary"])
def test_the_nearest_rows_are_found_by_smaller_vectors(
    vectors: str, encoder: Encoder, many: list[Document], tmp_path: Path
) -> None:
    index = Index.create(tmp_path / "index", encoder, vectors=vectors)
    index.add(many[:-1])
    assert not index.store.is_quantized()
    assert index.same_nearest() is None
    assert len(index.search(QUERY, 3)) == 3
    index.add(many[-1:])
    index = Index.open(index.folder, encoder)
    assert index.store.is_quantized()
    assert index.description["vectors"] == vectors
    same = index.same_nearest()
    assert same is not None
    assert 0.8 < same <= 1
    exact = index.store.nearest(encoder.encode(QUERY, normalize=True), 3, exact=True)
    hits = index.search(QUERY, 3)
    assert [hit.id for hit in hits] == [row["id"] for row in exact]
    # All rows come back, and filters hold.
    assert len(index.search(QUERY, 10 * MANY)) == MANY
    assert len(index.search(QUERY, MANY, where="even = true")) == MANY // 2
    # New rows are found before and after the index has them.
    index.add([Document("new", QUERY, {"even": True})])
    assert index.search(QUERY, 1)[0].id == "new"
    index.delete("id = 'new'")
    assert index.search(QUERY, 1)[0].id == exact[0]["id"]


def test_bits_that_fill_no_bytes_are_refused(encoder: Encoder, tmp_path: Path) -> None:
    message = (
        "8 has to divide the number of features, which is 20; give other dimensions, such as 16"
    )
    with pytest.raises(InputError, match=message):
        Index.create(tmp_path / "index", encoder, dimensions=20, vectors="binary")
    index = Index.create(tmp_path / "index", encoder, dimensions=20)
    with pytest.raises(InputError, match=message):
        index.compare("binary")
    assert index.description["vectors"] == "float32"


def test_unknown_vectors_are_refused(encoder: Encoder, tmp_path: Path) -> None:
    message = "unknown kind of vectors 'ubinary': did you mean 'binary'"
    with pytest.raises(InputError, match=message):
        Index.create(tmp_path / "index", encoder, vectors="ubinary")
    index = Index.create(tmp_path / "index", encoder)
    with pytest.raises(InputError, match=message):
        index.compare("ubinary")
    assert Index.open(index.folder).description["vectors"] == "float32"


def test_an_index_changes_what_it_compares(
    encoder: Encoder, many: list[Document], tmp_path: Path
) -> None:
    index = Index.create(tmp_path / "index", encoder)
    index.add(many)
    kinds = []
    for vectors in ("int8", "binary", "float32"):
        index = Index.open(index.folder, encoder)
        index.compare(vectors)
        assert index.add(many).unchanged == MANY
        kinds.append([each.index_type for each in index.store.table.list_indices()])
        assert index.store.is_quantized() == (vectors != "float32")
    assert kinds == [["FTS", "IvfSq"], ["FTS", "IvfRq"], ["FTS"]]

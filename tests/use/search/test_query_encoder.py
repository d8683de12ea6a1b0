"""An index that is asked by an encoder that has learned the vectors of the index's encoder."""

from pathlib import Path

import numpy as np
import pytest

from isotune.cli.serve import _open_index
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.use.search import Document, Index
from tests.use.search.test_index import QUERY
from tests.use.serve.conftest import running


@pytest.fixture
def small(tiny_model: Path, encoder: Encoder) -> Encoder:
    """Another encoder, which says that it has learned the vectors of the index's encoder."""
    other = Encoder.load(tiny_model, pooling="cls")
    other.space_of = encoder.fingerprint()
    return other


def test_it_asks_among_the_vectors_of_the_index(index: Index, small: Encoder) -> None:
    asked = Index.open(index.folder, small).search(QUERY)
    vector = small.encode(QUERY, normalize=True)
    assert asked == index.search(QUERY, vector=vector)
    assert asked != index.search(QUERY)


def test_it_is_kept_in_the_folder(small: Encoder, encoder: Encoder, tmp_path: Path) -> None:
    small.save(tmp_path / "small")
    assert Encoder.load(tmp_path / "small").space_of == encoder.fingerprint()


def test_it_adds_nothing(index: Index, small: Encoder) -> None:
    asked = Index.open(index.folder, small)
    with pytest.raises(InputError, match="only asks in this index"):
        asked.add([Document("new", "a man")])
    with pytest.raises(InputError, match="only asks in this index"):
        asked.add_index(Index.open(index.folder))
    assert len(index) == 60


def test_an_encoder_of_another_space_is_refused(index: Index, small: Encoder) -> None:
    small.space_of = small.fingerprint()
    with pytest.raises(InputError, match="its vectors are of the encoder"):
        Index.open(index.folder, small)


def test_the_server_asks_by_it(index: Index, small: Encoder) -> None:
    opened = _open_index(index.folder, {"small": small})
    with running({"small": small}, index=opened) as server:
        hits = server.post("/search", query=QUERY, k=3).json()["hits"]
    expected = Index.open(index.folder, small).search(QUERY, 3)
    assert [hit["id"] for hit in hits] == [hit.id for hit in expected]
    np.testing.assert_allclose(
        [hit["cosine"] for hit in hits], [hit.cosine for hit in expected], atol=1e-6
    )

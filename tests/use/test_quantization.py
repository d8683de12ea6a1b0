"""Vectors as bytes and bits: as sentence-transformers makes them, and ranges in a file."""

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers.util import quantize_embeddings

from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.use.quantization import NumberFormat, Ranges, bits_of


@pytest.fixture
def vectors() -> np.ndarray:
    """Vectors [200, 20], one of whose features never varies, and one is never above 0."""
    random = np.random.default_rng(0)
    vectors = random.normal(size=(200, 20)).astype(np.float32)
    vectors[:, 3] = 0.25
    vectors[:, 4] = -np.abs(vectors[:, 4])
    return vectors


def test_bytes_are_those_of_sentence_transformers(vectors: np.ndarray) -> None:
    sample, others = vectors[:50], vectors[50:]
    ranges = Ranges.of(sample, "f")
    limits = np.stack([sample.min(0), sample.max(0)])
    for some in (sample, others):
        ours = ranges.bytes_of(some)
        assert ours.dtype == np.int8
        np.testing.assert_array_equal(ours, quantize_embeddings(some, "int8", limits))
    # Values outside of the sample's range are at its ends.
    assert {-128, 127} <= set(ranges.bytes_of(10 * others).ravel().tolist())


@pytest.mark.parametrize("features", [20, 16, 1])
def test_bits_are_those_of_sentence_transformers(vectors: np.ndarray, features: int) -> None:
    some = vectors[:, :features]
    np.testing.assert_array_equal(bits_of(some), quantize_embeddings(some, "ubinary"))
    assert NumberFormat("binary").width(features) == bits_of(some).shape[1]


def test_unknown_vectors_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"unknown kind of vectors 'int4'.* Known: binary, float32"
    ):
        NumberFormat("int4")


def test_ranges_come_back_from_their_file(vectors: np.ndarray, tmp_path: Path) -> None:
    ranges = Ranges.of(vectors, "f")
    path = tmp_path / "r.json"
    ranges.save(path)
    assert Ranges.read(path) == ranges
    np.testing.assert_array_equal(Ranges.read(path).bytes_of(vectors), ranges.bytes_of(vectors))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "r.json: it can't be read"),
        ("[]", "r.json: these are no ranges"),
        # The line stays short with a large file.
        ("a text " * 1000, "r.json: these are no ranges.{,400}$"),
        ('{"fingerprint": "f", "texts": 1, "least": [1], "greatest": []}', "other features"),
    ],
)
def test_a_file_that_holds_no_ranges_is_refused(
    content: str | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "r.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=message):
        Ranges.read(path)


def test_ranges_of_another_encoder_are_refused(encoder: Encoder, tmp_path: Path) -> None:
    ranges = Ranges.of(encoder.encode(["a dog", "a cat"], normalize=True), encoder.fingerprint())
    ranges.check(encoder, tmp_path)
    for other in (encoder.cut_to(8), Encoder.load("bert-tiny")):
        with pytest.raises(InputError, match="the ranges are of another encoder"):
            ranges.check(other, tmp_path)

"""Averages of word vectors: file formats, the vector of a sentence, and malformed files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from isotune.encoder.encoder import Encoder
from isotune.encoder.load import load_encoder
from isotune.encoder.word_vectors import WordVectors
from isotune.errors import InputError

GLOVE = "the 0 1 0\ndog 2 0 -1.5\n, 0 0 4e0\n. . . 7 7 7\nthe 9 9 9\nétoile 1 2 3\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_text(GLOVE, "utf-8")
    return path


def test_a_sentence_is_the_mean_of_its_known_words(file: Path) -> None:
    words = WordVectors.load(file)
    assert words.vectors.shape == (5, 3)
    assert words.vectors.dtype == np.float32
    assert words.places[". . ."] == 3
    np.testing.assert_array_equal(words.encode("The DOG, barks: étoile"), np.array([3, 3, 5.5]) / 4)
    expected = [[1, 0.5, -0.75], [0, 0, 0], [0, 0, 0]]
    np.testing.assert_array_equal(words.encode(["the the dog dog", "a cat!", ""]), expected)
    unit = np.array([[0.8, 0, -0.6], [0, 0, 0]])
    np.testing.assert_allclose(words.encode(["dog", "cat"], normalize=True), unit, rtol=1e-6)
    assert words.encode([]).shape == (0, 3)


def test_a_word_is_looked_up_first_as_written_then_in_lower_case(file: Path) -> None:
    file.write_text(GLOVE + "Dog 5 5 5\nUS 1 1 1\n", "utf-8")
    words = WordVectors.load(file)
    expected = [[5, 5, 5], [2, 0, -1.5], [2, 0, -1.5], [1, 1, 1], [0, 0, 0]]
    np.testing.assert_array_equal(words.encode(["Dog", "dog", "DOG", "US", "us"]), expected)


def test_headers_line_ends_and_compression_change_nothing(file: Path, tmp_path: Path) -> None:
    expected = WordVectors.load(file)
    forms = {
        "headed.vec": "6 3\n" + GLOVE.replace("\n", " \n"),  # as fastText writes it
        "crlf.txt": GLOVE.replace("\n", "\r\n") + "\r\n",
    }
    for name, content in forms.items():
        (tmp_path / name).write_bytes(content.encode())
        with gzip.open(tmp_path / f"{name}.gz", "wb") as packed:
            packed.write(content.encode())
        for path in tmp_path / name, tmp_path / f"{name}.gz":
            words = WordVectors.load(path)
            assert words.places == expected.places
            np.testing.assert_array_equal(words.vectors, expected.vectors)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("the 1 2 3\ndog 1 2\n", ":2: not a word and 3 numbers"),
        ("the 1 2 3\n\ndog 1 2 x\n", ":3: not a word and 3 numbers"),
        ("the 1 2 3\ndog 1 2 nan\n", ":2: not a word and 3 numbers"),
        ("2 3\nthe 1 2\n", ":2: not a word and 3 numbers"),
        ("the\n", ":1: not a word and"),
        ("A man is playing a flute.\n", ":1: not a word and 5 numbers"),
        ("2 3\n", "the file has no word vectors"),
        ("", "empty"),
    ],
)
def test_a_malformed_file_is_refused(content: str, message: str, file: Path) -> None:
    file.write_text(content)
    with pytest.raises(InputError, match=message):
        WordVectors.load(file)


def test_load_encoder_takes_a_file_or_an_encoder(file: Path, tiny_model: Path) -> None:
    assert isinstance(load_encoder(file), WordVectors)
    assert isinstance(load_encoder(str(tiny_model)), Encoder)
    with pytest.raises(InputError, match="there is no such folder"):
        load_encoder("no/such/file.txt")

"""Averages of word vectors: the GloVe baseline of the papers' tables, from any file of word vectors.

A line of the file is a word and its numbers, separated by single spaces. These are GloVe's .txt files, and fastText's
and word2vec's .vec files, whose first line gives the number of words and of features; all of them may end in .gz. A
sentence is cut into runs of letters and digits, and single other characters. A word that the file doesn't have is
looked up in lower case, and skipped if that is not there either.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from isotune.data.records import opened, read_text
from isotune.encoder.fingerprint import short_hash
from isotune.encoder.stream import Advance, Parts, StreamEncoder, parts_of
from isotune.errors import InputError
from isotune.kernels.digest import digest

WORD = re.compile(r"\w+|[^\w\s]")


class WordVectors(StreamEncoder):
    """Encodes a sentence as the mean of its words' vectors; used like an `Encoder`."""

    def __init__(self, places: Mapping[str, int], vectors: NDArray[np.float32]) -> None:
        """Takes the row of each word in the vectors, and the vectors, [words, d]."""
        self.places = places
        self.vectors = vectors

    @classmethod
    def load(cls, path: str | Path) -> WordVectors:
        """Reads a file; of a word that occurs twice, the first vector counts.

        Raises:
            InputError: the file can't be read, or a line is not a word and as many numbers as the first line has.
        """
        path = Path(path)
        places: dict[str, int] = {}
        values = array("f")
        dimension = 0
        with opened(path) as file:
            for number, record in read_text(file, str(path)):
                fields = str(record["sentence"]).rstrip().split(" ")
                if number == 1 and len(fields) == 2 and all(map(str.isdecimal, fields)):
                    dimension = int(fields[1])
                    continue
                dimension = dimension or len(fields) - 1
                word = " ".join(fields[:-dimension])  # a few words of GloVe's largest file have spaces in them
                try:
                    vector = [float(value) for value in fields[-dimension:]]
                except ValueError:
                    vector = []
                if not word or len(vector) != dimension or not math.isfinite(sum(vector)):
                    raise InputError(
                        f"{path}:{number}: not a word and {dimension} numbers; a file is read as word vectors, so "
                        "give a folder for an encoder"
                    )
                if word not in places:
                    places[word] = len(places)
                    values.extend(vector)
        if not places:
            raise InputError(f"{path}: the file has no word vectors; give one with a word and its numbers in each line")
        return cls(places, np.frombuffer(values, np.float32).reshape(-1, dimension))

    @property
    def dimension(self) -> int:
        """Features of a word vector and of a sentence vector."""
        return int(self.vectors.shape[1])

    def fingerprint(self) -> str:
        """A hash of the words and their vectors: 20 hexadecimal digits."""
        return short_hash([list(self.places.items()), digest(torch.from_numpy(self.vectors))])

    def encode_parts(
        self, sentences: Iterable[str], *, normalize: bool = False, advance: Advance | None = None
    ) -> Parts:
        """Encodes a stream of any length, part by part; a sentence without a known word gets a vector of zeros."""
        for part in parts_of(sentences):
            result = np.zeros((len(part), self.dimension), dtype=np.float32)
            for i, sentence in enumerate(part):
                places = (self.places.get(word, self.places.get(word.lower())) for word in WORD.findall(sentence))
                if known := [place for place in places if place is not None]:
                    result[i] = self.vectors[known].mean(0)
            if normalize:
                lengths = np.linalg.norm(result, axis=1, keepdims=True)  # [n, 1]
                result = np.divide(result, lengths, out=result, where=lengths > 0)
            if advance:
                advance(len(part))
            yield part, result

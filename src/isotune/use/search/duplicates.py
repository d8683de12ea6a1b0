"""Texts that say the same twice: pairs above a cosine, clusters of them, and what is left without them.

A text is kept unless a text before it that is kept is near to it. So no two kept texts are near to each other, and
each other text is near to a kept one. A kept text and the texts that are left out for it are a cluster. (Clusters made
by following pairs from text to text would join texts that are far from each other.)
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from isotune.encoder.calibration import Calibration
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.use.search.documents import Document
from isotune.use.search.exact import pairs as near_pairs

MOST_PAIRS = 5_000_000  # which are sorted in less than a second, so that Ctrl-C is heard
AT_ONCE = 100_000  # pairs that become Python's numbers, which take several times the memory


@dataclass(frozen=True)
class Duplicates:
    """Documents, and which of them say the same."""

    documents: Sequence[Document]  # [N], all
    # (i, j) [m, 2] with i < j, of texts that are near to each other; of equal texts only the first is near to other
    # texts, and its pairs with the equal ones have the cosine 1.
    pairs: NDArray[np.int64]
    cosines: NDArray[np.float32]  # [m] of the pairs; the largest comes first
    kept: NDArray[np.int64]  # [N], for each document the one that is kept in its place, which may be itself

    @property
    def unique(self) -> list[Document]:
        """The documents that are kept, in order."""
        return [self.documents[i] for i, kept in enumerate(self.kept.tolist()) if i == kept]

    def clusters(self) -> list[list[int]]:
        """The clusters of two or more documents, the largest first; the kept document comes first in its cluster."""
        order = np.argsort(self.kept, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(self.kept[order])) + 1) if len(order) else []
        return sorted((group.tolist() for group in groups if len(group) > 1), key=len, reverse=True)

    def write(self, folder: Path, calibration: Calibration | None = None) -> list[Path]:
        """Writes pairs.csv, with probabilities if calibrated, clusters.csv, and unique.txt or, with columns, .jsonl."""
        documents = self.documents
        pairs = (
            (f"{cosine:.4f}", documents[i].id, documents[j].id, documents[i].text, documents[j].text)
            for (i, j), cosine in zip(_numbers(self.pairs), self.cosines, strict=True)
        )
        clusters = [
            (number, documents[i].id, documents[i].text)
            for number, cluster in enumerate(self.clusters(), 1)
            for i in cluster
        ]
        as_json = any(document.columns or {*"\r\n"} & {*document.text} for document in documents)
        unique = folder / ("unique.jsonl" if as_json else "unique.txt")
        header = ("cosine", "id1", "id2", "sentence1", "sentence2")
        chances = calibration.probability(self.cosines) if calibration else None
        write_csv(folder / "pairs.csv", header, pairs, chances)
        write_csv(folder / "clusters.csv", ("cluster", "id", "sentence"), clusters)
        with unique.open("w", encoding="utf-8") as lines:
            for document in self.unique:
                lines.write((_line(document) if as_json else document.text) + "\n")
        return [folder / "pairs.csv", folder / "clusters.csv", unique]


def find_duplicates(
    documents: Sequence[Document], encoder: Encoder, least: float, *, show_progress: bool = False
) -> Duplicates:
    """Finds texts that are equal or near; a text that the vocabulary hardly knows is compared by its words."""
    first: dict[str, int] = {}  # the first document with each text
    for i, document in enumerate(documents):
        _line(document)  # fails here, and not when all is done
        first.setdefault(document.text, i)
    same = np.array([first[document.text] for document in documents], np.int64)  # [N]: the first with its text
    again = np.flatnonzero(same != np.arange(len(same)))
    readable = [text for text, known in zip(first, encoder.knows(list(first)), strict=True) if known]
    vectors = encoder.encode(readable, normalize=True, show_progress=show_progress)
    numbers = np.array([first[text] for text in readable], np.int64)  # [D], of the documents with vectors
    pairs, cosines = [np.stack([same[again], again], 1)], [np.ones(len(again), np.float32)]
    count = 0
    for earlier, later, part in near_pairs(vectors, least):
        pairs.append(numbers[np.stack([earlier, later], 1)])
        cosines.append(part)
        count += len(part)
        if count > MOST_PAIRS:
            raise InputError(f"more than {MOST_PAIRS:,} pairs have a cosine of {least:g} or more; give a larger one")
    order = np.argsort(-np.concatenate(cosines), kind="stable")
    nearest_first = np.concatenate(pairs)[order]
    kept = _keep(nearest_first, len(documents))[same]
    return Duplicates(documents, nearest_first, np.concatenate(cosines)[order], kept)


def _line(document: Document) -> str:
    """A document as JSON, in which NaN and infinity are null; refuses bytes and other values that JSON has not."""
    fields = []
    for name, value in {"id": document.id, "sentence": document.text, **document.columns}.items():
        try:
            if isinstance(value, bytes) or (name == "sentence" and value != document.text):
                raise ValueError("bytes, or a second column with the sentences' name")
            fields.append(to_json({name: value}, inf_nan_mode="null").decode()[1:-1])
        except ValueError as error:
            raise InputError(f"{document.place or document.id}: column {name!r} can't be kept ({error})") from error
    return f"{{{','.join(fields)}}}"


def write_csv(
    path: Path, header: Sequence[str], rows: Iterable[Sequence[object]], chances: Iterable[float] | None = None
) -> None:
    """Writes a table to a file; the probabilities of the rows, if there are any, are its last column."""
    if chances is not None:
        header, rows = [*header, "probability"], ((*row, f"{p:.4f}") for row, p in zip(rows, chances, strict=True))
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(chain([header], rows))


def _numbers(pairs: NDArray[np.int64]) -> Iterator[list[int]]:
    for start in range(0, len(pairs), AT_ONCE):
        yield from pairs[start : start + AT_ONCE].tolist()


def _keep(pairs: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """For each of `count` documents, the nearest kept one before it, or itself; the pairs [m, 2] come nearest first."""
    kept = np.arange(count)
    for i, j in _numbers(pairs[np.argsort(pairs[:, 1], kind="stable")]):
        if kept[j] == j and kept[i] == i:
            kept[j] = i
    return kept

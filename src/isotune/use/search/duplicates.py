"""Texts that say the same twice: pairs above a cosine, clusters of them, and what is left without them.

A text is kept unless a text before it that is kept is near to it. So no two kept texts are near to each other, and
each other text is near to a kept one. A kept text and the texts that are left out for it are a cluster. (Clusters made
by following pairs from text to text would join texts that are far from each other.)
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from isotune.encoder.stream import StreamEncoder
from isotune.errors import InputError
from isotune.use.search.documents import Document
from isotune.use.search.exact import Vectors

MOST_PAIRS = 20_000_000  # half a gigabyte


@dataclass(frozen=True)
class Duplicates:
    """Documents, and which of them say the same.

    Attributes:
        documents: all documents [N].
        pairs: (i, j) [m, 2] with i < j, of texts that are near to each other; of equal texts only the first is near to
            other texts, and its pairs with the equal ones have the cosine 1.
        cosines: of the pairs [m]; the largest comes first.
        kept: for each document [N], the one that is kept in its place, which may be itself.
    """

    documents: Sequence[Document]
    pairs: NDArray[np.int64]
    cosines: NDArray[np.float32]
    kept: NDArray[np.int64]

    @property
    def unique(self) -> list[Document]:
        """The documents that are kept, in order."""
        return [self.documents[i] for i, kept in enumerate(self.kept.tolist()) if i == kept]

    def clusters(self) -> list[list[int]]:
        """The clusters of two or more documents, the largest first; the kept document comes first in its cluster."""
        order = np.argsort(self.kept, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(self.kept[order])) + 1) if len(order) else []
        return sorted((group.tolist() for group in groups if len(group) > 1), key=len, reverse=True)

    def write(self, folder: Path) -> list[Path]:
        """Writes pairs.csv, clusters.csv and unique.txt, or unique.jsonl if the documents have other columns."""
        documents = self.documents
        pairs = [
            (f"{cosine:.4f}", documents[i].id, documents[j].id, documents[i].text, documents[j].text)
            for (i, j), cosine in zip(self.pairs.tolist(), self.cosines, strict=True)
        ]
        clusters = [
            (number, documents[i].id, documents[i].text)
            for number, cluster in enumerate(self.clusters(), 1)
            for i in cluster
        ]
        has_columns = any(document.columns for document in documents)
        unique = folder / ("unique.jsonl" if has_columns else "unique.txt")
        with (folder / "pairs.csv").open("wb") as file:
            write_csv(file, ("cosine", "id1", "id2", "sentence1", "sentence2"), pairs)
        with (folder / "clusters.csv").open("wb") as file:
            write_csv(file, ("cluster", "id", "sentence"), clusters)
        with unique.open("w", encoding="utf-8") as lines:
            for document in self.unique:
                row = {"id": document.id, **document.columns, "sentence": document.text}
                lines.write((json.dumps(row, ensure_ascii=False, default=str) if has_columns else document.text) + "\n")
        return [folder / "pairs.csv", folder / "clusters.csv", unique]


def find_duplicates(
    documents: Sequence[Document], encoder: StreamEncoder, least: float, *, show_progress: bool = False
) -> Duplicates:
    """The documents whose texts are equal or have at least the cosine `least`.

    Raises:
        InputError: there are too many such pairs to hold in memory.
    """
    distinct = {document.text: i for i, document in reversed(list(enumerate(documents)))}  # the first of each text
    places = {text: place for place, text in enumerate(sorted(distinct, key=distinct.__getitem__))}
    place = np.array([places[document.text] for document in documents], np.int64)  # [N]
    first = np.array([distinct[text] for text in places], np.int64)  # [D], for each different text
    vectors = Vectors(encoder.encode(list(places), normalize=True, show_progress=show_progress))
    parts: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = []
    count = 0
    for i, j, cosines in vectors.pairs(least):
        parts.append((np.stack([i, j], 1), cosines))
        count += len(i)
        if count > MOST_PAIRS:
            raise InputError(f"more than {MOST_PAIRS:,} pairs have a cosine of {least:g} or more; give a larger one")
    again = np.flatnonzero(first[place] != np.arange(len(place)))
    near = np.concatenate([np.empty((0, 2), np.int64), *(pairs for pairs, _ in parts)])  # [m, 2], of different texts
    pairs = np.concatenate([np.stack([first[place[again]], again], 1), first[near]])
    cosines = np.concatenate([np.ones(len(again), np.float32), *(cosines for _, cosines in parts)])
    order = np.argsort(-cosines, kind="stable")
    near = near[np.argsort(-cosines[len(again) :], kind="stable")]
    return Duplicates(documents, pairs[order], cosines[order], first[_keep(near, len(first))[place]])


def write_csv(file: BinaryIO, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Writes a table to an open file, which stays open."""
    text = io.TextIOWrapper(file, "utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    text.detach()  # writes what is left


def _keep(pairs: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """For each of `count` texts, the nearest kept text before it, or itself; the pairs [m, 2] come nearest first."""
    kept = np.arange(count)
    for i, j in pairs[np.argsort(pairs[:, 1], kind="stable")].tolist():
        if kept[j] == j and kept[i] == i:
            kept[j] = i
    return kept

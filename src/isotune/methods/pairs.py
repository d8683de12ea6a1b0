"""Texts that belong together: a title and its body, a question and its answer, passages of a text.

Both texts of a row go through the encoder. Of a question and its answer, the first has to find the
second among the second texts of the batch (InfoNCE), as in E5 (Wang et al. 2022, section 3.2).
Passages of a text, drawn anew in each step, have equal roles and have to find each other among all
passages of the batch (NT-Xent; González-Márquez, Berens and Kobak 2026).

A batch may hold texts that belong together though they are in different rows: false negatives,
which the loss would push apart. Two rows are not compared if they have a text in common, such as a
title with two bodies, or a body that was posted twice (letters and digits are compared).

sentence-transformers keeps such copies out of a batch (its `NoDuplicatesBatchSampler`). Leaving
them out of the denominator instead needs no other order of the rows. Texts that mean the same in
other words stay negatives.

Rows may form a chain: a - b, b - c, c - d. Of these, a - b and c - d have no text in common, so
they are compared: d is a negative of a, and b is a negative of c. The log counts the rows of
chains.

A row may have a third text, which does not belong to the others. All first texts of the batch whose
rows share no text with that row have to find their counterparts among these hard negatives too.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from isotune.data.packed import Packed, pack
from isotune.data.rows import Pair, Row, Sentence, Triplet, normalized
from isotune.data.tokens import Tokenized
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError, counted
from isotune.losses import info_nce, nt_xent
from isotune.methods.method import Batch, Method
from isotune.methods.options import CropsOptions, PairsOptions
from isotune.views.crops import sentences_of, two_passages

ROLES = ("query", "document", "document")
"""The roles of the texts of a row, which choose the encoder's prompts."""

MIXER = 1_000_003
"""Multiplies the number of one of two texts, so that the sum tells their order."""


class Pairs(Method):
    """Two texts of a row; rows that share a text are not compared."""

    rows: type[Row] = Pair
    needs_text = True
    separates_copies = False
    options: PairsOptions

    def __init__(self, options: PairsOptions, encoder: Encoder) -> None:
        super().__init__(options, encoder)
        if options.negatives:
            self.rows = Triplet

    def prepare(
        self, rows: Iterable[Row], cache: Path | None, say: Callable[[str], None]
    ) -> Iterator[Row]:
        """The rows as they are. Then the log gets the number of rows that form chains."""
        firsts = array("q")
        seconds = array("q")
        for row in rows:
            first, second = (hash(normalized(str(text))) for text in row[:2])
            firsts.append(first)
            seconds.append(second)
            yield row
        count = count_chained(np.asarray(firsts), np.asarray(seconds))
        if count:
            say(
                f"pairs: {count:,} of {counted(len(firsts), 'row')} form chains (a - b, b - c, "
                "c - d); rows without a common text, such as a - b and c - d, are negatives of "
                "each other, so b and c are too"
            )

    def tokenize(
        self, encoder: Encoder, columns: Sequence[list[str]], max_length: int
    ) -> Tokenized:
        """Each text under the encoder's prompt for its role, if it has such prompts."""
        tokens = []
        for role, texts in zip(ROLES, columns, strict=False):
            tokens.append(encoder.prompted(role).tokenize(texts, max_length))
        return Tokenized(tokens)

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """InfoNCE: each first text has to find its second text, without false negatives."""
        first, second, *negatives = encoded
        hard_negatives = negatives[0] if negatives else None
        row_groups = groups(batch).to(first.device)
        loss = info_nce(first, second, self.options.temperature, hard_negatives, row_groups)
        return {"info_nce": loss}


class Crops(Method):
    """Two passages of each text; copies of a text are not compared."""

    rows = Sentence
    needs_text = True
    separates_copies = False
    options: CropsOptions

    def __init__(self, options: CropsOptions, encoder: Encoder) -> None:
        super().__init__(options, encoder)
        self.tokenize_documents = encoder.prompted("document").tokenize

    def prepare(
        self, rows: Iterable[Row], cache: Path | None, say: Callable[[str], None]
    ) -> Iterator[Row]:
        """The rows as they are. Then the log gets the number of rows that are one sentence."""
        count = 0
        single = 0
        for row in rows:
            count += 1
            if len(sentences_of(row[0])) == 1:
                single += 1
            yield row
        if single:
            say(
                f"crops: {single:,} of {counted(count, 'row')} are one sentence, and are cut "
                "between two words; a row should be a document of several sentences"
            )

    def tokenize(
        self, encoder: Encoder, columns: Sequence[list[str]], max_length: int
    ) -> Tokenized:
        """Tokenizes a passage of each text, which stands for those that are drawn."""
        passages, _ = two_passages(columns[0], Generator().manual_seed(0))
        return Tokenized([self.tokenize_documents(passages, max_length)])

    def draw(self, batch: Batch) -> Batch:
        """Draws two passages of each text."""
        first, second = two_passages(batch.sentences[0], batch.generator)
        return replace(batch, texts=(self._packed(first, batch), self._packed(second, batch)))

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """NT-Xent between the passages, which have equal roles, without false negatives."""
        first, second = encoded
        row_groups = groups(batch).to(first.device)
        return {"nt_xent": nt_xent(first, second, self.options.temperature, row_groups)}

    def _packed(self, passages: Sequence[str], batch: Batch) -> Packed:
        return pack(self.tokenize_documents(passages, batch.max_length))


def groups(batch: Batch) -> Tensor:
    """[N, G] int64: the numbers of the texts of each row; rows that share one belong together.

    With hard negatives [2N, G]: after the rows' numbers, those of their negatives.

    Raises:
        InputError: all rows share a text.
    """
    text_numbers: dict[bytes, int] = {}
    columns = [_numbered(texts, text_numbers) for texts in batch.sentences]
    texts_of_row = torch.stack(columns[:2], dim=1)  # [N, 2], or [N, 1] of passages
    if (texts_of_row == texts_of_row[0]).all(0).any():
        raise InputError(
            "all rows of a step share a text, so none is left to compare with: give other texts, "
            "or a larger batch size"
        )
    negatives_of_row = [negatives[:, None].expand_as(texts_of_row) for negatives in columns[2:]]
    return torch.cat([texts_of_row, *negatives_of_row])


def _numbered(texts: Sequence[str], text_numbers: dict[bytes, int]) -> Tensor:
    """[N] int64: the number of each text. Texts that are new get the next numbers."""
    numbers = []
    for text in texts:
        key = normalized(text)
        text_numbers.setdefault(key, len(text_numbers))
        numbers.append(text_numbers[key])
    return torch.tensor(numbers)


def count_chained(firsts: NDArray[np.int64], seconds: NDArray[np.int64]) -> int:
    """The number of rows with a text that is the first of a row and the second of another row.

    Both arrays are [N], a number for each text. A row whose two texts are equal makes no chain, nor
    does a row with its mirror: a - b and b - a.
    """
    differ = firsts != seconds
    rows = MIXER * firsts[differ] + seconds[differ]
    rows, places, copies = np.unique(rows, return_index=True, return_counts=True)
    firsts = firsts[differ][places]
    seconds = seconds[differ][places]
    mirrored = np.isin(rows, MIXER * seconds + firsts)
    follows = _occurrences(firsts, seconds) > mirrored
    is_followed = _occurrences(seconds, firsts) > mirrored
    return int(copies[follows | is_followed].sum())


def _occurrences(numbers: NDArray[np.int64], among: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each of the numbers [N] is among others [M], [N]."""
    ordered = np.sort(among)
    ends = np.searchsorted(ordered, numbers, "right")
    return ends - np.searchsorted(ordered, numbers, "left")

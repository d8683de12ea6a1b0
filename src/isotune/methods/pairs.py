"""Texts that belong together: a title and its body, a question and its answer, two passages of one text.

Both texts of a row go through the encoder. Of a question and its answer, the first has to find the second among the
second texts of the batch (InfoNCE), as in E5 (Wang et al. 2022, section 3.2). Passages of a text, drawn anew in each
step, have equal roles and have to find each other among all passages of the batch (NT-Xent; González-Márquez, Berens
and Kobak 2026).

A batch may hold texts that belong together though they are in different rows: false negatives, which the loss would
push apart. Two rows are not compared if they have a text in common, such as a title with two bodies, or a body that was
posted twice (letters and digits are compared).

sentence-transformers keeps such copies out of a batch (its `NoDuplicatesBatchSampler`). Leaving them out of the
denominator instead needs no other order of the rows. Texts that mean the same in other words stay negatives.

A row may have a third text, which does not belong to the others. All first texts of the batch whose rows share no text
with that row have to find their counterparts among these hard negatives too.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Generator, Tensor

from isotune.data.packed import pack
from isotune.data.rows import Pair, Row, Sentence, Triplet, normalized
from isotune.data.tokens import Tokenized
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.losses import info_nce, nt_xent
from isotune.methods.method import Batch, Method
from isotune.methods.options import CropsOptions, PairsOptions
from isotune.views.crops import two_passages

ROLES = "query", "document", "document"  # of the texts of a row, for the encoder's prompts


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

    def tokenize(
        self, encoder: Encoder, columns: Sequence[list[str]], max_length: int
    ) -> Tokenized:
        """Each text under the encoder's prompt for its role, if it has such prompts."""
        both = zip(ROLES, columns, strict=False)
        return Tokenized(
            [encoder.prompted(role).tokenize(texts, max_length) for role, texts in both]
        )

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """InfoNCE: each first text has to find its second text, without false negatives."""
        first, second, *negatives = encoded
        hard = negatives[0] if negatives else None
        of_rows = groups(batch).to(first.device)
        return {"info_nce": info_nce(first, second, self.options.temperature, hard, of_rows)}


class Crops(Method):
    """Two passages of each text; copies of a text are not compared."""

    rows = Sentence
    needs_text = True
    separates_copies = False
    options: CropsOptions

    def __init__(self, options: CropsOptions, encoder: Encoder) -> None:
        super().__init__(options, encoder)
        self.tokenize_passages = encoder.prompted("document").tokenize

    def tokenize(
        self, encoder: Encoder, columns: Sequence[list[str]], max_length: int
    ) -> Tokenized:
        """Tokenizes a passage of each text, which stands for those that are drawn."""
        passages, _ = two_passages(columns[0], Generator().manual_seed(0))
        return Tokenized([self.tokenize_passages(passages, max_length)])

    def draw(self, batch: Batch) -> Batch:
        """Draws two passages of each text."""
        passages = two_passages(batch.sentences[0], batch.generator)
        tokens = (self.tokenize_passages(view, batch.max_length) for view in passages)
        return replace(batch, texts=tuple(map(pack, tokens)))

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """NT-Xent between the passages, which have equal roles, without false negatives."""
        first, second = encoded
        return {
            "nt_xent": nt_xent(
                first, second, self.options.temperature, groups(batch).to(first.device)
            )
        }


def groups(batch: Batch) -> Tensor:
    """[N, G] int64: the numbers of the texts of each row; rows that share one belong together.

    With hard negatives [2N, G]: after the rows' numbers, those of their negatives.

    Raises:
        InputError: all rows share a text.
    """
    numbers: dict[bytes, int] = {}
    columns = [
        [numbers.setdefault(normalized(text), len(numbers)) for text in texts]
        for texts in batch.sentences
    ]
    of_rows, negatives = columns[:2], columns[2:]
    table = torch.tensor(of_rows).T
    if (table == table[0]).all(0).any():
        raise InputError(
            "all rows of a step share a text, so none is left to compare with: give other texts, or a larger batch size"
        )
    return torch.cat(
        [table, *(torch.tensor(numbers)[:, None].expand_as(table) for numbers in negatives)]
    )

"""Counts how much of the text that a run is evaluated on is in its training text.

Two texts are equal here if their letters and digits are, whatever their case, punctuation and white
space. So the tokenised copy of a sentence equals the sentence. Only the evaluation text is held, so
memory does not grow with the corpus.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, permutations
from typing import NamedTuple

from isotune.data.rows import R, Sentence, normalized, text_fields
from isotune.data.sources import ScoredPairs


class Shared(NamedTuple):
    """How much of an evaluation set is in a corpus."""

    sentences: int
    """Distinct sentences of the set that are in the corpus."""

    of_sentences: int
    """Distinct sentences of the set."""

    pairs: int
    """Pairs of the set with both sentences in the corpus, in one row or in two."""

    of_pairs: int
    """Pairs of the set; 0 if it has texts, each of them a pair with itself."""

    rows: int
    """Pairs of the set that are rows of the corpus, or texts that have a label there."""


class Overlap:
    """Compares the rows of a corpus with evaluation sets, while the rows pass."""

    def __init__(self, sets: Mapping[str, ScoredPairs]) -> None:
        self._pairs: dict[str, list[tuple[bytes, bytes]]] = {}
        for name, pairs in sets.items():
            first = map(normalized, pairs.sentence1)
            second = map(normalized, pairs.sentence2)
            self._pairs[name] = list(zip(first, second, strict=True))
        self._texts: set[bytes] = set()
        for normalized_pairs in self._pairs.values():
            self._texts.update(chain.from_iterable(normalized_pairs))
        # A text of nothing but punctuation is no evidence.
        self._texts.discard(b"")
        self._seen: set[bytes] = set()
        self._rows: set[tuple[bytes, bytes]] = set()

    def watch(self, rows: Iterable[R], row_type: type[R]) -> Iterator[R]:
        """Passes the rows of a corpus on; all are of one row type."""
        width = len(text_fields(row_type))
        for row in rows:
            texts = self._texts.intersection([normalized(str(text)) for text in row[:width]])
            self._seen |= texts
            if width > 1:
                self._rows.update(permutations(texts, 2))
            elif row_type is not Sentence:
                # A text with a label is a pair with itself.
                self._rows.update(zip(texts, texts, strict=True))
            yield row

    def shared(self) -> dict[str, Shared]:
        """How much of each set has passed so far."""
        return {name: self._shared(pairs) for name, pairs in self._pairs.items()}

    def _shared(self, pairs: list[tuple[bytes, bytes]]) -> Shared:
        distinct = self._texts.intersection(chain.from_iterable(pairs))
        if all(first == second for first, second in pairs):
            # The set has texts, each of them a pair with itself.
            rows = len(self._rows.intersection(pairs))
            pairs = []
        else:
            rows = sum(pair in self._rows for pair in pairs)
        return Shared(
            sentences=len(distinct & self._seen),
            of_sentences=len(distinct),
            pairs=sum(map(self._seen.issuperset, pairs)),
            of_pairs=len(pairs),
            rows=rows,
        )

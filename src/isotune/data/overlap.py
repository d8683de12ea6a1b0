"""Counts how much of the text that a run is evaluated on is in its training text.

Two texts are equal here if their letters and digits are, whatever their case, punctuation and white space. So the
tokenised copy of a sentence equals the sentence. Only the evaluation text is held, so memory does not grow with the
corpus.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from isotune.data.rows import R, Sentence, normalized, text_fields
from isotune.data.sources import ScoredPairs


class Shared(NamedTuple):
    """How much of an evaluation set is in a corpus."""

    sentences: int  # distinct sentences of the set that are in the corpus
    of_sentences: int  # distinct sentences of the set
    pairs: int  # pairs of the set with both sentences in the corpus, in one row or in two
    of_pairs: int  # pairs of the set; 0 if it has texts, each of them a pair with itself
    rows: int  # pairs of the set that are rows of the corpus, or texts that have a label there


class Overlap:
    """Compares the rows of a corpus with evaluation sets, while the rows pass."""

    def __init__(self, sets: Mapping[str, ScoredPairs]) -> None:
        self._pairs = {
            name: list(
                zip(map(normalized, pairs.sentence1), map(normalized, pairs.sentence2), strict=True)
            )
            for name, pairs in sets.items()
        }
        # A text of nothing but punctuation is no evidence.
        self._known = {
            text for pairs in self._pairs.values() for pair in pairs for text in pair
        } - {b""}
        self._seen: set[bytes] = set()
        self._rows: set[tuple[bytes, bytes]] = set()

    def watch(self, rows: Iterable[R], row_type: type[R]) -> Iterator[R]:
        """Passes the rows of a corpus on; all are of one row type."""
        width = len(text_fields(row_type))
        for row in rows:
            known = self._known.intersection([normalized(str(text)) for text in row[:width]])
            self._seen |= known
            if row_type is not Sentence:
                self._rows.update(
                    (one, other) for one in known for other in known if one != other or width == 1
                )
            yield row

    def shared(self) -> dict[str, Shared]:
        """How much of each set has passed so far."""
        shared = {}
        for name, pairs in self._pairs.items():
            distinct = self._known.intersection(text for pair in pairs for text in pair)
            of_texts = all(first == second for first, second in pairs)
            rows = sum(map(self._rows.__contains__, set(pairs) if of_texts else pairs))
            pairs = [] if of_texts else pairs
            both = sum(self._seen.issuperset(pair) for pair in pairs)
            shared[name] = Shared(len(distinct & self._seen), len(distinct), both, len(pairs), rows)
        return shared

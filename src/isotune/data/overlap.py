"""How much of the text that is evaluated on was trained on.

Two texts are the same if their letters and digits are, whatever the case, the punctuation and the white space: so
the tokenised copy of a sentence is that sentence. What is held is the evaluation's text, so memory doesn't grow
with the corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from isotune.data.datasets import ScoredPairs
from isotune.data.rows import R, texts

_ASCII_OTHERS = bytes(code for code in range(128) if not chr(code).isalnum())


class Shared(NamedTuple):
    """How much of an evaluation set is in a corpus.

    Attributes:
        sentences: Its distinct sentences that are.
        of_sentences: Its distinct sentences.
        pairs: Its pairs both sentences of which are; they need not be a row there.
        of_pairs: Its pairs.
    """

    sentences: int
    of_sentences: int
    pairs: int
    of_pairs: int


class Overlap:
    """Looks at the rows of a corpus as they pass.

    Args:
        sets: The evaluation sets, by name.
    """

    def __init__(self, sets: Mapping[str, ScoredPairs]) -> None:
        self._pairs = {
            name: list(zip(map(normal, pairs.sentence1), map(normal, pairs.sentence2), strict=True))
            for name, pairs in sets.items()
        }
        # What is nothing but punctuation tells nothing.
        self._known = {text for pairs in self._pairs.values() for pair in pairs for text in pair} - {b""}
        self._seen: set[bytes] = set()

    def watch(self, rows: Iterable[R], row: type[R]) -> Iterator[R]:
        """Passes the rows of a corpus on, which are all of one kind."""
        width = len(texts(row))
        for one in rows:
            self._seen.update(self._known.intersection([normal(str(text)) for text in one[:width]]))
            yield one

    def shared(self) -> dict[str, Shared]:
        """For each set, how much of it has passed."""
        found = {}
        for name, pairs in self._pairs.items():
            distinct = self._known.intersection(text for pair in pairs for text in pair)
            found[name] = Shared(
                sentences=len(distinct & self._seen),
                of_sentences=len(distinct),
                pairs=sum(self._seen.issuperset(pair) for pair in pairs),
                of_pairs=len(pairs),
            )
        return found


def normal(text: str) -> bytes:
    """The letters and digits of a text, case folded, in UTF-8."""
    if text.isascii():  # the same as below, ten times as fast
        return text.lower().encode().translate(None, _ASCII_OTHERS)
    return "".join(filter(str.isalnum, text.casefold())).encode()

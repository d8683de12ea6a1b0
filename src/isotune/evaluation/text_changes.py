"""What training changed between a user's own sentences: which sentences are nearest to each other.

Training changes the scale of the cosines, so the cosines of two encoders are not compared with each
other. What is compared is their order.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from isotune.evaluation import correlations
from isotune.evaluation.copies import distinct_texts
from isotune.evaluation.results import Result
from isotune.evaluation.vectors import Floats, unit_length

CHANGES = "text-changes.json"

READ = 20_000
"""So many sentences are read at most."""

SENTENCES = 1_000
"""So many of the different sentences are compared; they are drawn at random."""

FEWEST_SENTENCES = 3

LONGEST = 300
"""The most characters of a sentence in an example; a longer one is cut."""

EXAMPLES = 12
NEIGHBOURS = 10


class NewNearest(Result):
    """A sentence with another nearest sentence than before."""

    sentence: str
    before: str
    after: str


class TextChanges(Result):
    """How two encoders differ on the same sentences."""

    sentences: int

    agreement: float
    """Spearman's correlation of the cosines before and after, over all pairs of sentences."""

    label_agreement: float | None = None
    """That of the encoders that labels would compare, on the pairs that `isotune label` chooses.

    These are the start and the encoder kept, or a student and its teachers. None in old runs.
    """

    same_nearest: float
    """The share of the sentences whose nearest sentence is the same."""

    same_neighbours: float
    """The share of the `NEIGHBOURS` nearest sentences that are the same."""

    new_nearest: tuple[NewNearest, ...]
    """Sentences with another nearest sentence; the clearest changes come first."""


def sample_sentences(texts: Iterable[str], seed: int, most: int | None = None) -> list[str]:
    """At most `most` different sentences, by default `SENTENCES`, of the first `READ`."""
    if most is None:
        most = SENTENCES
    distinct = distinct_texts(islice(texts, READ))
    if len(distinct) <= most:
        return distinct
    drawn = np.random.default_rng(seed).choice(len(distinct), most, replace=False)
    return [distinct[i] for i in np.sort(drawn)]


def compare_text(before: Floats, after: Floats, sentences: Sequence[str]) -> TextChanges:
    """Compares two encoders by their vectors [n, d] of n different sentences.

    There are at least `FEWEST_SENTENCES` of them.
    """
    old = _cosines(before)  # [n, n]
    new = _cosines(after)  # [n, n]
    near_old = _nearest_first(old)
    near_new = _nearest_first(new)
    changed = np.flatnonzero(near_old[:, 0] != near_new[:, 0])
    then = near_old[changed, 0]
    now = near_new[changed, 0]
    # By how much each encoder prefers its nearest sentence to that of the other.
    old_margins = old[changed, then] - old[changed, now]
    new_margins = new[changed, now] - new[changed, then]
    order = np.argsort(np.minimum(old_margins, new_margins))[::-1]
    examples = []
    for number in changed[order[:EXAMPLES]]:
        example = NewNearest(
            sentence=shortened(sentences[number]),
            before=shortened(sentences[near_old[number, 0]]),
            after=shortened(sentences[near_new[number, 0]]),
        )
        examples.append(example)
    shares = [np.isin(*rows).mean() for rows in zip(near_old, near_new, strict=True)]
    return TextChanges(
        sentences=len(sentences),
        agreement=_agreement(old, new),
        same_nearest=1 - len(changed) / len(sentences),
        same_neighbours=float(np.mean(shares)),
        new_nearest=tuple(examples),
    )


def _agreement(old: Floats, new: Floats) -> float:
    """Spearman's correlation of two encoders' cosines [n, n].

    It is 0 if those of the first are all equal.
    """
    pairs = np.triu_indices(len(old), 1)
    found = correlations(old[pairs], new[pairs])
    if found is None:
        return 0.0
    spearman, _ = found
    return spearman


def _nearest_first(cosines: Floats) -> NDArray[np.int64]:
    """The numbers [n, k] of the nearest sentences of each.

    Of equally near ones, an earlier one is first.
    """
    k = min(NEIGHBOURS, len(cosines) - 1)
    return np.argsort(-cosines, axis=1, kind="stable")[:, :k]


def shortened(text: str) -> str:
    """The text as examples show it."""
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 4]} ..."


def _cosines(vectors: Floats) -> Floats:
    """The cosines [n, n] of n vectors; -inf of a vector with itself."""
    vectors = unit_length(vectors)
    cosines = np.clip(vectors @ vectors.T, -1, 1)
    np.fill_diagonal(cosines, -np.inf)
    return cosines

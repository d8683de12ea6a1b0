"""What training changed between a user's own sentences: which sentences are nearest to each other.

Training changes the scale of the cosines, so the cosines of two encoders are not compared with each other. What is
compared is their order.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np

from isotune.evaluation import correlations
from isotune.evaluation.copies import distinct_texts
from isotune.evaluation.results import Result
from isotune.evaluation.vectors import Floats, unit_length

CHANGES = "text-changes.json"
READ = 20_000  # so many different sentences are read at most
SENTENCES = 1_000  # so many of these are compared, drawn at random
FEWEST_SENTENCES = 3
LONGEST = 300  # characters of a sentence in an example; more are cut
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
    agreement: (
        float  # Spearman's correlation of the cosines before and after, over all pairs of sentences
    )
    same_nearest: float  # share of the sentences whose nearest sentence is the same
    same_neighbours: float  # share of the `NEIGHBOURS` nearest sentences that are the same
    new_nearest: tuple[NewNearest, ...]  # the clearest changes first


def sample_sentences(texts: Iterable[str], seed: int) -> list[str]:
    """At most `SENTENCES` different sentences, drawn from the first `READ`."""
    distinct = distinct_texts(islice(texts, READ))
    if len(distinct) <= SENTENCES:
        return distinct
    drawn = np.random.default_rng(seed).choice(len(distinct), SENTENCES, replace=False)
    return [distinct[i] for i in np.sort(drawn)]


def compare_text(before: Floats, after: Floats, sentences: Sequence[str]) -> TextChanges:
    """Compares two encoders by their vectors [n, d] of n different sentences, at least `FEWEST_SENTENCES`."""
    old, new = _cosines(before), _cosines(after)  # [n, n]
    shown = [text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..." for text in sentences]
    n, upper = len(sentences), np.triu_indices(len(sentences), 1)
    near_old, near_new = (
        np.argsort(-each, axis=1, kind="stable")[:, : min(NEIGHBOURS, n - 1)] for each in (old, new)
    )
    changed = np.flatnonzero(near_old[:, 0] != near_new[:, 0])
    then, now = near_old[changed, 0], near_new[changed, 0]
    # By how much each encoder prefers its nearest sentence to that of the other.
    margins = np.minimum(
        old[changed, then] - old[changed, now], new[changed, now] - new[changed, then]
    )
    clearest = changed[np.argsort(margins)[::-1][:EXAMPLES]]
    return TextChanges(
        sentences=n,
        agreement=(correlations(old[upper], new[upper]) or (0.0,))[0],
        same_nearest=1 - len(changed) / n,
        same_neighbours=float(
            np.mean([np.isin(*rows).mean() for rows in zip(near_old, near_new, strict=True)])
        ),
        new_nearest=tuple(
            NewNearest(sentence=shown[i], before=shown[near_old[i, 0]], after=shown[near_new[i, 0]])
            for i in clearest
        ),
    )


def _cosines(vectors: Floats) -> Floats:
    """The cosines [n, n] of n vectors; -inf of a vector with itself."""
    vectors = unit_length(vectors)
    cosines = np.clip(vectors @ vectors.T, -1, 1)
    np.fill_diagonal(cosines, -np.inf)
    return cosines

"""What a classifier confuses, and texts that a reader can judge: a part of `examples.json`."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from isotune.evaluation.labelled import LabelsApart
from isotune.evaluation.probes import Integers
from isotune.evaluation.results import Result
from isotune.evaluation.text_changes import shortened
from isotune.evaluation.vectors import Floats

SHOWN = 6
"""So many texts of each kind are shown at most."""

MOST_LABELS = 12
"""The mistakes of more labels are a list, and no table."""

MARKED = 3
"""So many of the most frequent mistakes are marked in the table."""

LISTED = 10
"""So many of the most frequent mistakes are listed."""


class LabelledText(Result):
    """A text of the rows set apart, and what is predicted for it."""

    text: str
    right: str
    """The label of the row."""

    before: str
    """What a classifier on the vectors of the start predicts."""

    after: str
    """What a classifier on the vectors of the encoder kept predicts."""

    chance: float | None
    """How probable that classifier finds its label, in [0, 1]; None if it does not say."""


class Mistake(NamedTuple):
    """Rows with one label for which another is predicted."""

    right: str
    predicted: str
    rows: int


class LabelExamples(Result):
    """How the rows set apart are labelled by a classifier on the encoder kept."""

    labels: tuple[str, ...]

    counts: tuple[tuple[int, ...], ...]
    """The rows with each label (first index) for which each label is predicted (second index)."""

    righted: tuple[LabelledText, ...]
    """Texts whose label is right now, and was wrong on the vectors of the start."""

    mistaken: tuple[LabelledText, ...]
    """Texts with a wrong label; those of which the classifier is surest come first."""

    @property
    def has_table(self) -> bool:
        """Whether the labels are few enough for a table of all counts."""
        return len(self.labels) <= MOST_LABELS

    @property
    def mistakes(self) -> list[Mistake]:
        """The most frequent mistakes, the most frequent first."""
        found = []
        for right, row in zip(self.labels, self.counts, strict=True):
            for predicted, count in zip(self.labels, row, strict=True):
                if count and predicted != right:
                    found.append(Mistake(right, predicted, count))
        return sorted(found, key=lambda mistake: -mistake.rows)[:LISTED]

    @property
    def marked(self) -> list[tuple[str, str]]:
        """The labels, right and predicted, of the mistakes that the table marks."""
        return [(each.right, each.predicted) for each in self.mistakes[:MARKED]]


def label_examples(task: LabelsApart, before: Floats, after: Floats) -> LabelExamples:
    """Counts what is confused, and chooses texts.

    The values of the task's N rows, by the start and by the encoder kept, are those of its `score`:
    [N, 2], or [N, 3] with the probabilities of the predictions.
    """
    _, right = task.tested
    old = before[:, 1].astype(np.int64)
    new = after[:, 1].astype(np.int64)
    counts = np.zeros((len(task.labels), len(task.labels)), np.int64)
    np.add.at(counts, (right, new), 1)
    chances = None
    if after.shape[1] == 3:
        chances = after[:, 2]
    texts = list(_labelled_texts(task, old, new, chances))
    righted = [text for text in texts if text.before != text.right == text.after]
    mistaken = [text for text in texts if text.after != text.right]
    return LabelExamples(
        labels=tuple(task.labels),
        counts=tuple(map(tuple, counts.tolist())),
        righted=tuple(sorted(righted, key=_doubt)[:SHOWN]),
        mistaken=tuple(sorted(mistaken, key=_doubt)[:SHOWN]),
    )


def _labelled_texts(
    task: LabelsApart, before: Integers, after: Integers, chances: Floats | None
) -> Iterator[LabelledText]:
    """The rows set apart, with the labels that are predicted before and after."""
    (texts,), right = task.tested
    for row, text in enumerate(texts):
        chance = None
        if chances is not None:
            chance = float(chances[row])
        yield LabelledText(
            text=shortened(text),
            right=task.labels[right[row]],
            before=task.labels[before[row]],
            after=task.labels[after[row]],
            chance=chance,
        )


def _doubt(text: LabelledText) -> float:
    """How unsure the classifier is of its label; 0 for all texts if it does not say."""
    if text.chance is None:
        return 0.0
    return 1 - text.chance

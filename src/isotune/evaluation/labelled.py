"""Rows with labels that a run has set apart: what the labels are predicted by.

A classifier is trained on the vectors of the rows to train on, as the method `classifier` does, and
predicts the labels of the rows set apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isotune.data import LabelledSentence, ScoredPairs
from isotune.errors import InputError
from isotune.evaluation.classifiers import ClassifierResult, Rows
from isotune.evaluation.copies import groups_of_copies
from isotune.evaluation.intervals import WithoutRows
from isotune.evaluation.results import NamedScores
from isotune.evaluation.sts import correlations
from isotune.evaluation.transfer import TransferTask, pairs_with_itself, parts_of
from isotune.evaluation.vectors import NO_ROWS, Floats, SentenceEncoder, sentence_vectors
from isotune.methods.options import ClassifierOptions


@dataclass(frozen=True)
class ChosenLogistic:
    """The logistic regression of the method `classifier`, whose strength folds choose."""

    rows: Sequence[LabelledSentence]
    """The rows to train on."""

    options: ClassifierOptions

    @property
    def title(self) -> str:
        """The classifier, and how its regularisation is chosen."""
        from isotune.methods.regression import FOLDS

        weights = ""
        if self.options.balanced:
            weights = ", balanced classes"
        return f"logistic regression, standardised features, C by {FOLDS} folds{weights}"

    def __call__(self, parts: Mapping[str, Rows]) -> ClassifierResult:
        """Trains on train and tests on test."""
        from isotune.methods.classifier import fit_head

        features, _ = parts["train"]
        tested, _ = parts["test"]
        head = fit_head(self.rows, features.cpu().numpy(), self.options)
        outputs = head.outputs(tested.cpu().numpy())
        chances = head.probabilities(outputs).max(1)
        protocol = "trained on train, tested on test"
        return ClassifierResult(outputs.argmax(1), protocol, None, (), chances)


@dataclass(frozen=True, eq=False)
class LabelsApart(TransferTask):
    """One label a text: accuracy and macro F1 of the rows set apart."""

    labels: Sequence[str] = ()
    """The labels in the order of the class numbers."""

    macro_f1 = True
    measure = "accuracy"
    unit = "texts"

    @property
    def pairs(self) -> ScoredPairs:
        """Each text as a pair with itself, by which overlap with the training text is counted."""
        (texts,), numbers = self.tested
        return pairs_with_itself(self.name, texts, numbers)


@dataclass(frozen=True, eq=False)
class NumbersApart(WithoutRows):
    """Numbers, or several labels a text: how well those of the rows set apart are predicted."""

    name: str
    train: Sequence[LabelledSentence]
    test: Sequence[LabelledSentence]
    options: ClassifierOptions

    @property
    def score_names(self) -> list[str]:
        """The name of the task, which stands before that of each score."""
        return [self.name]

    def texts(self) -> dict[str, list[str]]:
        """The different texts of all rows."""
        return {"": list(dict.fromkeys(row.sentence for row in (*self.train, *self.test)))}

    def score(self, encoder: SentenceEncoder) -> tuple[NamedScores, Floats]:
        """Correlations of numbers; or F1 of several labels, over all labels and their mean."""
        from isotune.methods.classifier import fit_head

        texts = [row.sentence for row in (*self.train, *self.test)]
        vectors = sentence_vectors(encoder.encode, texts, self.name)
        head = fit_head(self.train, vectors[: len(self.train)], self.options)
        outputs = head.outputs(vectors[len(self.train) :])
        if self.options.kind == "multi":
            values = self._of_labels(outputs > 0)
        else:
            values = self._of_numbers(outputs[:, 0])
        return NamedScores(name=self.name, values=values), NO_ROWS

    def _of_numbers(self, predicted: Floats) -> dict[str, float]:
        right = np.array([float(row.label) for row in self.test])
        found = correlations(right, predicted.astype(np.float64))
        if found is None:
            raise InputError("all numbers of the rows set apart are equal; set more rows apart")
        spearman, pearson = found
        return {f"{self.name}-spearman": spearman, f"{self.name}-pearson": pearson}

    def _of_labels(self, predicted: NDArray[np.bool_]) -> dict[str, float]:
        from sklearn.metrics import f1_score

        from isotune.methods.classifier import has_label

        right = has_label(self.test, self.options)
        values = {}
        for average in ("micro", "macro"):
            f1 = f1_score(right, predicted, average=average, zero_division=0.0)
            values[f"{self.name}-{average}-f1"] = float(f1)
        return values


RowsApart = LabelsApart | NumbersApart


def rows_apart(
    name: str,
    train: Sequence[LabelledSentence],
    test: Sequence[LabelledSentence],
    options: ClassifierOptions,
) -> RowsApart:
    """The task of predicting what the rows set apart are labelled with.

    The options name all classes of the rows to train on. Labels that only rows set apart have are
    never predicted.
    """
    if options.kind != "single":
        return NumbersApart(name, train, test, options)
    unseen = sorted({row.label for row in test} - set(options.classes))
    labels = (*options.classes, *unseen)
    parts = parts_of({"train": train, "test": test}, labels)
    groups = groups_of_copies([row.sentence for row in test])
    return LabelsApart(name, ChosenLogistic(train, options), parts, groups=groups, labels=labels)

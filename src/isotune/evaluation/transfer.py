"""Transfer tasks: how well a classifier does on frozen sentence vectors (SentEval, Conneau and Kiela 2018).

A classification of the user's is one with the part train alone, scored by macro F1 too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from isotune.data import DATASETS, LabelledPair, LabelledSentence, ScoredPairs, read
from isotune.data.sources import Source
from isotune.errors import InputError
from isotune.evaluation.classifiers import FOLDS, Classifier, Logistic, SentEval
from isotune.evaluation.metrics import measure
from isotune.evaluation.probes import Integers
from isotune.evaluation.results import TransferResult
from isotune.evaluation.task_rows import rows_of
from isotune.evaluation.vectors import Floats, SentenceEncoder, sentence_vectors, to_float64_device


@dataclass(frozen=True, eq=False)
class TransferTask:
    """A classification of sentences, or of pairs of sentences."""

    name: str  # that the user gives, such as "mr"
    classifier: Classifier  # what is trained on the vectors
    # The splits by name, as `classifiers` describes them: the N sentences of a split, or the N first sentences of its
    # pairs and the N second ones; and their class numbers [N].
    parts: Mapping[str, tuple[Sequence[Sequence[str]], Integers]]
    f1: bool = False  # whether F1 is reported too

    macro_f1 = False  # whether macro F1 is

    def with_seed(self, seed: int) -> TransferTask:
        """The task with another seed of SentEval's classifier; the same task if it has another classifier."""
        classifier = self.classifier
        return (
            replace(self, classifier=replace(classifier, seed=seed))
            if isinstance(classifier, SentEval)
            else self
        )

    def score(self, encoder: SentenceEncoder) -> tuple[TransferResult, Floats]:
        """Trains the classifier on the encoder's vectors; the values are the true and the predicted classes, [N, 2]."""
        columns = [column for texts, _ in self.parts.values() for column in texts]
        vectors = to_float64_device(
            sentence_vectors(encoder.encode, list(chain(*columns)), self.name), encoder
        )
        blocks = iter(vectors.split([len(column) for column in columns]))  # [n, d] each
        parts = self.parts.items()
        result = self.classifier(
            {
                name: (_features([next(blocks) for _ in texts]), targets)
                for name, (texts, targets) in parts
            }
        )
        _, targets = self.parts["test" if "test" in self.parts else "train"]
        scored = TransferResult(
            name=self.name,
            classifier=self.classifier.title,
            protocol=result.protocol,
            rows=len(targets),
            accuracy=measure("accuracy", targets, result.predictions),
            f1=measure("f1", targets, result.predictions) if self.f1 else None,
            macro_f1=measure("macro_f1", targets, result.predictions) if self.macro_f1 else None,
            dev_accuracy=result.dev_accuracy,
            regularisation=result.regularisation,
        )
        return scored, np.stack([targets, result.predictions], 1).astype(np.float64)


def load_transfer(name: str, dataset: str, *, classifier: Classifier) -> TransferTask:
    """Reads all splits of a labelled dataset as a task of this name. A task of pairs reports F1 too."""
    kind = LabelledPair if LabelledPair in DATASETS[dataset].row_types else LabelledSentence
    columns = {"label": "subset"} if dataset == "trec" else None  # TREC's six coarse classes
    rows = {
        split: sorted(
            [(*row,) for row in read(f"{dataset}:{split}", kind, columns)],
            key=lambda row: (
                *(len(text.split()) for text in row[:-1]),
                row[-1],
            ),  # SentEval's folds depend on it
        )
        for split in DATASETS[dataset].splits
    }
    numbers = {
        label: number for number, label in enumerate(sorted({row[-1] for row in rows["train"]}))
    }
    parts = {}
    for split, part in rows.items():
        *texts, labels = zip(*part, strict=True)
        parts[split] = texts, np.array([numbers[label] for label in labels])
    return TransferTask(name, classifier, parts, f1=kind is LabelledPair)


class ClassificationTask(TransferTask):
    """Texts with labels of the user: does a logistic regression on their vectors find the labels of other texts?"""

    macro_f1 = True
    measure = "accuracy"  # what the task's score is
    unit = "texts"  # what its rows are

    @property
    def pairs(self) -> ScoredPairs:
        """Each text as a pair with itself, so that the overlap with the training text can be counted."""
        ((texts,), numbers) = self.parts["train"]
        return ScoredPairs(
            self.name, "", [*texts], [*texts], numbers.astype(np.float64), [self.name] * len(texts)
        )


def load_classification(name: str, source: Source) -> ClassificationTask:
    """Reads texts with labels as `rows_of` does; raises `InputError` where no label is frequent enough."""
    texts, labels = zip(*rows_of(source, LabelledSentence), strict=True)
    classes, numbers = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"{name}: all labels are {labels[0]!r}; two or more classes are needed")
    if np.bincount(numbers).max() < FOLDS:
        raise InputError(
            f"{name}: {len(classes):,} different labels for {len(labels):,} texts, none for {FOLDS} of them; "
            f"the {FOLDS} folds of the evaluation need more texts of a label"
        )
    return ClassificationTask(name, Logistic(), {"train": ([texts], numbers)})


def _features(vectors: Sequence[Tensor]) -> Tensor:
    """The vectors [N, d] of a sentence; of a pair (u, v) SentEval's features |u - v| and u * v, [N, 2 d]."""
    if len(vectors) == 1:
        return vectors[0]
    first, second = vectors
    return torch.cat([(first - second).abs(), first * second], dim=1)

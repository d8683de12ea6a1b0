"""Transfer: how well a classifier does on frozen sentence vectors (SentEval, Conneau and Kiela 2018)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from isotune.data import DATASETS, LabelledPair, LabelledSentence, read
from isotune.evaluation.classification import measure
from isotune.evaluation.classifiers import Classifier, Labelled
from isotune.evaluation.probes import Integers
from isotune.evaluation.results import TransferResult
from isotune.evaluation.vectors import SentenceEncoder, on_its_device, sentence_vectors


@dataclass(frozen=True, eq=False)
class Part:
    """N labelled rows.

    Attributes:
        columns: N sentences, or N first and N second ones.
        targets: [N] class numbers.
    """

    columns: Sequence[Sequence[str]]
    targets: Integers


@dataclass(frozen=True, eq=False)
class TransferTask:
    """Labelled sentences, or pairs of them.

    Attributes:
        name: as the user writes it.
        title: in tables.
        classifier: what is trained on the vectors.
        parts: as the classifier takes them.
        f1: whether F1 is reported too.
    """

    name: str
    title: str
    classifier: Classifier
    parts: Mapping[str, Part]
    f1: bool = False

    def score(self, encoder: SentenceEncoder) -> TransferResult:
        """The accuracy of the classifier on the encoder's vectors.

        Raises:
            InputError: the encoder gives a vector with a value that is not finite.
        """
        columns = [column for part in self.parts.values() for column in part.columns]
        vectors = on_its_device(sentence_vectors(encoder, list(chain(*columns)), self.name), encoder)
        blocks = iter(vectors.split([len(column) for column in columns]))  # [n, d] each
        outcome = self.classifier(
            {
                name: Labelled(_features([next(blocks) for _ in part.columns]), part.targets)
                for name, part in self.parts.items()
            }
        )
        targets = self.parts["test" if "test" in self.parts else "train"].targets
        return TransferResult(
            name=self.name,
            classifier=self.classifier.title,
            protocol=outcome.protocol,
            rows=len(targets),
            accuracy=measure("accuracy", targets, outcome.predictions),
            f1=measure("f1", targets, outcome.predictions) if self.f1 else None,
            dev_accuracy=outcome.dev_accuracy,
            regularisation=outcome.regularisation,
        )


def load_transfer(
    name: str, title: str, *, classifier: Classifier, dataset: str, columns: Mapping[str, str] | None = None
) -> TransferTask:
    """The task of a dataset with labels: all of its splits.

    Args:
        name: of the task.
        title: of the task.
        classifier: see `TransferTask`.
        dataset: by name; F1 is reported too if it is of pairs.
        columns: as `isotune.data.read` takes them.

    Raises:
        InputError: the data can't be read.
    """
    row = LabelledPair if LabelledPair in DATASETS[dataset].row_types else LabelledSentence
    rows = {split: _rows(f"{dataset}:{split}", row, columns) for split in DATASETS[dataset].splits}
    classes = {label: number for number, label in enumerate(sorted({row[-1] for row in rows["train"]}))}
    parts = {}
    for split, part in rows.items():
        *texts, labels = zip(*part, strict=True)
        parts[split] = Part(texts, np.array([classes[label] for label in labels]))
    return TransferTask(name, title, classifier, parts, f1=len(parts["train"].columns) == 2)


def _rows(
    source: str, row: type[LabelledPair | LabelledSentence], columns: Mapping[str, str] | None
) -> list[tuple[str, ...]]:
    """By numbers of words, then by label: SentEval's order, on which its folds and batches depend."""
    rows = [tuple(one) for one in read(source, row, columns)]
    return sorted(rows, key=lambda texts: (*(len(text.split()) for text in texts[:-1]), texts[-1]))


def _features(vectors: Sequence[Tensor]) -> Tensor:
    """The vectors [N, d] of a sentence; of a pair (u, v) the features |u - v|, u * v [N, 2 d], as SentEval."""
    if len(vectors) == 1:
        return vectors[0]
    first, second = vectors
    return torch.cat([(first - second).abs(), first * second], dim=1)

"""Transfer tasks: how well a classifier does on frozen sentence vectors.

They are those of SentEval (Conneau and Kiela 2018).

A classification of the user's is one with the part train alone, scored by macro F1 too.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from isotune.data import DATASETS, LabelledPair, LabelledSentence, ScoredPairs, read
from isotune.data.sources import Source
from isotune.errors import InputError, counted, first_names
from isotune.evaluation.classifiers import (
    FOLDS,
    Classifier,
    ClassifierResult,
    Logistic,
    Rows,
    SentEval,
)
from isotune.evaluation.copies import Groups, groups_of_copies, number_of_copies, tell_copies
from isotune.evaluation.intervals import resampled_macro_f1, resampled_means
from isotune.evaluation.metrics import compute_metric
from isotune.evaluation.probes import Integers
from isotune.evaluation.results import Aggregation, Metric, TransferResult
from isotune.evaluation.task_rows import rows_of
from isotune.evaluation.vectors import Floats, SentenceEncoder, sentence_vectors, to_float64_device

logger = logging.getLogger(__name__)

Part: TypeAlias = tuple[Sequence[Sequence[str]], Integers]
"""The N rows of a split: one or two columns of their texts, and their class numbers [N]."""


@dataclass(frozen=True, eq=False)
class TransferTask:
    """A classification of sentences, or of pairs of sentences."""

    name: str
    """The name that the user gives, such as "mr"."""

    classifier: Classifier
    """What is trained on the vectors."""

    parts: Mapping[str, Part]
    """The splits by name, as `classifiers` describes them."""

    f1: bool = False
    """Whether F1 is reported too."""

    groups: Groups | None = None
    """Which rows of the part train are copies of a text.

    It is None if there are none, or if they count as texts.
    """

    macro_f1 = False
    """Whether macro F1 is reported too."""

    def with_seed(self, seed: int) -> TransferTask:
        """The task with another seed of SentEval's classifier.

        A task with another classifier stays as it is.
        """
        if not isinstance(self.classifier, SentEval):
            return self
        return replace(self, classifier=replace(self.classifier, seed=seed))

    def score(self, encoder: SentenceEncoder) -> tuple[TransferResult, Floats]:
        """Trains the classifier on the encoder's vectors.

        The values are the true and the predicted classes, [N, 2]; and, where the classifier says
        how probable each prediction is, that in a third column.
        """
        outcome = self._classify(self._encode(encoder))
        return self.result_of(outcome, self.classifier.title)

    @property
    def tested(self) -> Part:
        """The rows that are tested: those of the part test, or else of train."""
        return self.parts["test" if "test" in self.parts else "train"]

    def result_of(self, outcome: ClassifierResult, title: str) -> tuple[TransferResult, Floats]:
        """What the predictions of a classifier with this title are, as `score` gives it."""
        _, targets = self.tested
        compare = partial(compute_metric, targets=targets, predictions=outcome.predictions)
        result = TransferResult(
            name=self.name,
            classifier=title,
            protocol=outcome.protocol,
            rows=len(targets),
            accuracy=compare("accuracy"),
            f1=compare("f1") if self.f1 else None,
            macro_f1=compare("macro_f1") if self.macro_f1 else None,
            largest_class=float(np.bincount(targets).max() / len(targets)),
            copies=number_of_copies(self.groups),
            dev_accuracy=outcome.dev_accuracy,
            regularisation=outcome.regularisation,
        )
        columns: list[Floats | Integers] = [targets, outcome.predictions]
        if outcome.chances is not None:
            columns.append(outcome.chances)
        return result, np.stack(columns, 1).astype(np.float64)

    @property
    def score_names(self) -> list[str]:
        """The name of the task for the accuracy, and those of the F1 that are reported."""
        names = [self.name]
        if self.f1:
            names.append(f"{self.name}-f1")
        if self.macro_f1:
            names.append(f"{self.name}-macro-f1")
        return names

    def texts(self) -> dict[str, list[str]]:
        """The different texts of all splits."""
        return {"": list(dict.fromkeys(chain(*self._columns)))}

    def resampled(
        self,
        values: Floats,
        aggregation: Aggregation = "all",
        metric: Metric = "spearman",
        seed: int = 0,
    ) -> dict[str, Floats]:
        """The accuracy, and macro F1 if it is reported, on samples of the rows that are tested."""
        is_right = values[:, 0] == values[:, 1]  # [N]
        samples = {self.name: resampled_means(is_right, seed, self.groups)}
        if self.macro_f1:
            macro_f1 = resampled_macro_f1(values[:, :2], seed, self.groups)
            samples[f"{self.name}-macro-f1"] = macro_f1
        return samples

    @property
    def _columns(self) -> list[Sequence[str]]:
        """The columns of texts of all splits."""
        return [column for texts, _ in self.parts.values() for column in texts]

    def _encode(self, encoder: SentenceEncoder) -> dict[str, Rows]:
        """The features and the class numbers of each split.

        All distinct sentences are encoded at once.
        """
        columns = self._columns
        sentences = list(chain.from_iterable(columns))
        vectors = sentence_vectors(encoder.encode, sentences, self.name)
        blocks = iter(to_float64_device(vectors, encoder).split(list(map(len, columns))))  # [n, d]
        rows = {}
        for split, (texts, targets) in self.parts.items():
            features = _features(list(islice(blocks, len(texts))))
            rows[split] = features, targets
        return rows

    def _classify(self, rows: Mapping[str, Rows]) -> ClassifierResult:
        """Trains and tests the classifier on the features of all splits."""
        return self.classifier(rows)


def load_transfer(name: str, dataset: str, *, classifier: Classifier) -> TransferTask:
    """Reads all splits of a labelled dataset as a task of this name.

    A task of pairs reports F1 too.
    """
    is_paired = LabelledPair in DATASETS[dataset].row_types
    kind: type[LabelledPair | LabelledSentence] = LabelledSentence
    if is_paired:
        kind = LabelledPair
    columns = None
    if dataset == "trec":
        # The task TREC has the six coarse classes.
        columns = {"label": "subset"}
    rows = {}
    for split in DATASETS[dataset].splits:
        rows[split] = sorted(map(tuple, read(f"{dataset}:{split}", kind, columns)), key=_by_length)
    labels = sorted({row[-1] for row in rows["train"]})
    for split, part in rows.items():
        unseen = {row[-1] for row in part}.difference(labels)
        if unseen:
            names = first_names(sorted(unseen))
            raise InputError(f"{dataset}:{split}: its labels are not in train: {names}")
    return TransferTask(name, classifier, parts_of(rows, labels), f1=is_paired)


def parts_of(
    rows: Mapping[str, Iterable[tuple[Any, ...]]], labels: Sequence[str]
) -> dict[str, Part]:
    """The parts of labelled rows by split; a class has the number of its place in `labels`."""
    numbers = {label: number for number, label in enumerate(labels)}
    parts: dict[str, Part] = {}
    for split, rows_of_split in rows.items():
        *texts, labels_of_rows = zip(*rows_of_split, strict=True)
        parts[split] = texts, np.array([numbers[label] for label in labels_of_rows])
    return parts


def _by_length(row: tuple[str, ...]) -> tuple[int | str, ...]:
    """The key of SentEval's order of rows: the words of each text, then the label.

    SentEval's folds depend on this order.
    """
    *texts, label = row
    return (*(len(text.split()) for text in texts), label)


class ClassificationTask(TransferTask):
    """Texts with labels of the user: does a classifier find the labels of other texts?"""

    classifier: Logistic
    macro_f1 = True

    measure = "accuracy"
    """What the task's score is."""

    unit = "texts"
    """What the task's rows are."""

    @property
    def pairs(self) -> ScoredPairs:
        """Each text as a pair with itself, by which overlap with the training text is counted."""
        (texts,), numbers = self.parts["train"]
        return pairs_with_itself(self.name, texts, numbers)

    def _classify(self, rows: Mapping[str, Rows]) -> ClassifierResult:
        """Trains and tests by folds, which part no text from its copies."""
        return self.classifier(rows, self.groups)


def pairs_with_itself(name: str, texts: Sequence[str], numbers: Integers) -> ScoredPairs:
    """Each of N texts as a pair with itself. Its score is the number of its class, [N]."""
    return ScoredPairs(
        name=name,
        split="",
        sentence1=[*texts],
        sentence2=[*texts],
        scores=numbers.astype(np.float64),
        subsets=[name] * len(texts),
    )


def load_classification(name: str, source: Source) -> ClassificationTask:
    """Reads texts with labels as `rows_of` does.

    Raises `InputError` where no label is frequent enough.
    """
    texts, labels = zip(*rows_of(source, LabelledSentence), strict=True)
    groups = groups_of_copies(texts)
    _check_labels(name, labels, groups)
    tell_copies(name, groups, "text", "copies stand in one fold, and are drawn together")
    _, numbers = np.unique(labels, return_inverse=True)
    return ClassificationTask(name, Logistic(), {"train": ([texts], numbers)}, groups=groups)


def _check_labels(name: str, labels: Sequence[str], groups: Groups | None) -> None:
    """Refuses labels that folds can't test, and warns of labels that stand at one text alone."""
    numbers = range(len(labels)) if groups is None else groups.tolist()
    label_of_text: dict[int, str] = {}
    texts_of_label: dict[str, set[int]] = {}
    for number, label in zip(numbers, labels, strict=True):
        label_of_text.setdefault(number, label)
        texts_of_label.setdefault(label, set()).add(number)
    if len(texts_of_label) < 2:
        raise InputError(f"{name}: all labels are {labels[0]!r}; two or more classes are needed")
    single = [label for label, texts in texts_of_label.items() if len(texts) == 1]
    _, most = Counter(label_of_text.values()).most_common(1)[0]
    if most < FOLDS:
        alone = ""
        if single:
            alone = f" (at one text alone: {first_names(single)})"
        raise InputError(
            f"{name}: {len(texts_of_label):,} different labels for {len(labels):,} texts, "
            f"none for {FOLDS} of them{alone}; the {FOLDS} folds of the evaluation need more "
            "texts of a label, of which copies count as one"
        )
    if single:
        logger.warning(
            "%s: %s at one text alone, which no classifier can find: %s",
            name,
            counted(len(single), "label"),
            first_names(single),
        )


def _features(vectors: Sequence[Tensor]) -> Tensor:
    """The vectors [N, d] of a sentence.

    A pair (u, v) has SentEval's features |u - v| and u * v, [N, 2 d].
    """
    if len(vectors) == 1:
        return vectors[0]
    first, second = vectors
    return torch.cat([(first - second).abs(), first * second], dim=1)

"""A classifier: an encoder, and a head that makes labels or scores of its vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self, cast

import numpy as np
import torch
from numpy.typing import NDArray

from isotune.encoder.classifier_head import (
    ClassifierHead,
    HeadSettings,
    Kind,
    Outputs,
    Predictions,
    choose_task,
    head_folder,
    tasks_of,
)
from isotune.encoder.encoder import Encoder
from isotune.encoder.format.pretrained import local_folder
from isotune.encoder.heads import Heads
from isotune.encoder.pooling import Pooling
from isotune.encoder.stream import Advance, encode_pairs, encode_stream
from isotune.errors import InputError
from isotune.kernels import Precision

Texts = Iterable[str] | Iterable[tuple[str, str]]
"""The texts to classify, or pairs of texts for a head that reads pairs. Any number of them."""


class Classifier:
    """Predicts a label, several labels or a score for each text.

    Attributes:
        encoder: the encoder, whose own vectors may be others than those that the head reads.
        head: the linear layer with its labels.
        task: the name of the task, for an encoder with several heads; "" otherwise.
        reader: the encoder of the same weights whose vectors the head reads.
    """

    def __init__(self, encoder: Encoder, head: ClassifierHead, task: str = "") -> None:
        """Joins an encoder and a head.

        Raises:
            InputError: the head reads vectors of another size than the encoder gives.
        """
        self.encoder = encoder
        self.head = head
        self.task = task
        self.reader = read_by(head.settings, encoder)
        if self.reader.dimension != head.dimension:
            raise InputError(
                f"the classifier reads vectors with {head.dimension} features, and the encoder "
                f"gives {self.reader.dimension}"
            )

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        task: str | None = None,
        precision: Precision | None = None,
        device: str | torch.device | None = None,
    ) -> Self:
        """Loads an encoder with its head: the folder `encoder` of a run, or a name on the hub.

        Args:
            model: as `Encoder.load` takes it.
            task: which head, for an encoder with several.
            precision: as `Encoder.load` takes it.
            device: as `Encoder.load` takes it.

        Raises:
            InputError: as `Encoder.load`; or the folder has no head, several and no `task` is
                given, or a damaged one.
        """
        folder = local_folder(model)
        chosen = choose_task(tasks_of(folder), task, model)
        encoder = Encoder.load(folder, precision=precision, device=device)
        head = ClassifierHead.read(folder / head_folder(chosen))
        return cls(encoder, head, chosen)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in the order of the probabilities; none for scores."""
        return self.head.labels

    @property
    def kind(self) -> Kind:
        """What is predicted: a "single" label, "multi" labels or a "score"."""
        return self.head.kind

    def predict(self, texts: Texts) -> Predictions:
        """A label for each text; for several labels a tuple of labels, and for scores a number.

        Raises:
            InputError: an element is not a string, or not a pair of strings for a head of pairs.
        """
        return self.head.predictions(self.all_outputs(texts))

    def predict_proba(self, texts: Texts) -> NDArray[np.float32]:
        """The calibrated probability of each label, [N, classes].

        Raises:
            InputError: as `predict`; or the classifier predicts scores.
        """
        return self.head.probabilities(self.all_outputs(texts))

    def outputs(
        self, texts: Texts, advance: Advance | None = None
    ) -> Iterator[tuple[list[str] | list[tuple[str, str]], Outputs]]:
        """The parts of a stream of any length: n texts and the head's outputs [n, classes].

        `advance` is told of progress within a part. Errors are those of `predict`.
        """
        if self.head.settings.pairs:
            parts = encode_pairs(self.reader, cast(Iterable[tuple[str, str]], texts), advance)
        else:
            parts = encode_stream(self.reader, cast(Iterable[str], texts), False, advance)
        for part in parts:
            yield part.sentences, self.head.outputs(part.vectors)

    def all_outputs(self, texts: Texts) -> Outputs:
        """The head's outputs [N, classes] for all texts. Errors are those of `predict`."""
        parts = [np.empty((0, self.head.settings.width), np.float32)]
        for _, outputs in self.outputs(texts):
            parts.append(outputs)
        return np.concatenate(parts)

    def save(self, folder: str | Path) -> None:
        """Writes the encoder with the head into a new folder, whole or not at all.

        Raises:
            InputError: the folder exists already or can't be written.
        """
        self.encoder.save(folder, {self.task: self.head})


def classifiers_of(encoder: Encoder, folder: Path) -> dict[str, Classifier]:
    """The classifiers in the folder of an encoder that is loaded, by the names of their tasks."""
    classifiers = {}
    for task in tasks_of(folder):
        head = ClassifierHead.read(folder / head_folder(task))
        classifiers[task] = Classifier(encoder, head, task)
    return classifiers


def read_by(settings: HeadSettings, encoder: Encoder) -> Encoder:
    """The encoder of the same weights whose vectors a head reads."""
    pooling = encoder.pooling
    if settings.pooling is not None:
        pooling = Pooling(settings.pooling)
    heads = encoder.heads
    if not settings.heads:
        heads = Heads(encoder.backbone.dimension, ())
    reader = encoder.with_parts(pooling=pooling, heads=heads)
    if settings.max_length is not None:
        reader.max_length = min(settings.max_length, encoder.max_length)
    return reader

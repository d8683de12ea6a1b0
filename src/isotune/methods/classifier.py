"""A linear classifier on the vectors of an encoder that stays as it is.

The cheapest way to predict labels: a logistic regression, or for numbers a ridge regression, of
scikit-learn. Nothing is trained step by step, so the method needs one pass over the text. As a
second stage it is the last step of SetFit (Tunstall et al. 2022, section 3), after an encoder was
tuned on the labels by contrast.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotune.data.rows import LabelledSentence, Row, Sentence, copy_key
from isotune.encoder.classifier_head import ClassifierHead, HeadSettings
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads.head import CHUNK_VECTORS
from isotune.methods.method import ENOUGH, ROWS, ClosedForm, Feed
from isotune.methods.options import ClassifierOptions
from isotune.methods.regression import Linear, fit_logistic, fit_ridge, fit_several


class LinearClassifier(ClosedForm):
    """A layer [classes, d] on the encoder's vectors, which folds of the rows regularise."""

    options: ClassifierOptions
    tunes = False
    separates_copies = False

    def __init__(self, options: ClassifierOptions, encoder: Encoder) -> None:
        super().__init__(options, encoder)
        width = max(1, len(options.classes))
        self.register_buffer("weights", torch.zeros(width, encoder.dimension))
        self.register_buffer("bias", torch.zeros(width))
        self.register_buffer("temperature", torch.ones(()))
        self.register_buffer("calibration_rows", torch.zeros((), dtype=torch.int64))
        self.weights: Tensor
        self.bias: Tensor
        self.temperature: Tensor
        self.calibration_rows: Tensor
        self._rows: list[LabelledSentence] = []

    def feeds(self) -> Mapping[str, Feed]:
        """Texts, which one update takes all, made from rows with labels."""
        return {ROWS: Feed(Sentence, LabelledSentence, batch_size=1, enough=ENOUGH)}

    def prepare(
        self, rows: Iterable[Row], cache: Path | None, say: Callable[[str], None]
    ) -> Iterator[Row]:
        """The texts of the rows. The labels are kept for `fit`."""
        self._rows = [LabelledSentence(*row) for row in rows]
        return (Sentence(row.sentence) for row in self._rows)

    @torch.no_grad()
    def fit(self, encoder: Encoder, vectors: Tensor) -> None:
        """Fits the layer to the encoder's vectors, from pooled vectors [N, d] of the texts."""
        chunks = vectors.split(CHUNK_VECTORS)
        encoded = [encoder.heads(chunk.to(encoder.device)).float().cpu() for chunk in chunks]
        head = fit_head(self._rows, torch.cat(encoded).numpy(), self.options)
        self.weights.copy_(torch.from_numpy(head.weights))
        self.bias.copy_(torch.from_numpy(head.bias))
        self.temperature.fill_(head.settings.temperature)
        self.calibration_rows.fill_(head.settings.calibration_rows)

    def classifiers(self, max_length: int) -> Mapping[str, ClassifierHead]:
        """The head that stays with the encoder; texts are cut at the encoder's limit alone."""
        settings = HeadSettings(
            kind=self.options.kind,
            labels=self.options.classes,
            temperature=self.temperature.item(),
            calibration_rows=int(self.calibration_rows.item()),
        )
        head = ClassifierHead(settings, self.weights.cpu().numpy(), self.bias.cpu().numpy())
        return {ROWS: head}


def fit_head(
    rows: Sequence[LabelledSentence], vectors: NDArray[np.float32], options: ClassifierOptions
) -> ClassifierHead:
    """The head for rows with labels, from the encoder's vectors [N, d] of their texts."""
    _, groups = np.unique([copy_key(row.sentence) for row in rows], return_inverse=True)
    settings = HeadSettings(kind=options.kind, labels=options.classes)
    match options.kind:
        case "score":
            scores = np.array([float(row.label) for row in rows])
            return _head(settings, fit_ridge(vectors, scores, groups))
        case "multi":
            chosen = has_label(rows, options)
            return _head(settings, fit_several(vectors, chosen, groups, options.balanced))
        case "single":
            numbers = {label: number for number, label in enumerate(options.classes)}
            targets = np.array([numbers[row.label] for row in rows])
            layer, choice = fit_logistic(vectors, targets, groups, options.balanced)
            head = _head(settings, layer)
            return head.calibrated(choice.outputs.astype(np.float32), targets[choice.rows])


def has_label(rows: Sequence[LabelledSentence], options: ClassifierOptions) -> NDArray[np.int64]:
    """[N, C] 1 for each label that a row has, and 0 for the others."""
    labels = [options.labels_of(row.label) for row in rows]
    return np.array([[name in own for name in options.classes] for own in labels], np.int64)


def _head(settings: HeadSettings, layer: Linear) -> ClassifierHead:
    weights, bias = (np.ascontiguousarray(part, np.float32) for part in layer)
    return ClassifierHead(settings, weights, bias)

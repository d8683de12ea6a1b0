"""The head of a classifier: a linear layer on the vector of a text, with the names of its classes.

A head lies in the encoder's folder, in a folder of its own:

    classifier/config.json        the sizes, as a `Dense` of sentence-transformers has them
    classifier/model.safetensors  linear.weight [classes, d] and linear.bias [classes]
    classifier/classifier.json    the labels, the temperature, and which vector the layer reads

So sentence-transformers' `Dense.load` reads the layer. modules.json doesn't name the folder, so the
encoder gives its own vectors as before. An encoder with several tasks has a folder for each task,
such as classifier-sentiment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)
from torch import nn

from isotune.encoder.format.modules import read_tensors, write_json, write_module
from isotune.encoder.format.pretrained import check_files, load_errors
from isotune.encoder.options import POOLINGS
from isotune.errors import InputError, counted, invalid, unknown
from isotune.files import read_json

FOLDER = "classifier"
"""The folder of a head in the encoder's folder."""

SETTINGS = "classifier.json"
"""The file of a head's settings."""

# The temperatures that `calibrated` tries, as natural logarithms.
LOG_TEMPERATURES = (-5.0, 5.0)

Kind = Literal["single", "multi", "score"]
Outputs = NDArray[np.float32]
"""[N, classes] what the linear layer gives for N texts."""
Predictions = list[str] | list[tuple[str, ...]] | list[float]
"""A label, several labels or a score for each text."""


class HeadSettings(BaseModel):
    """What a head predicts, and which vector it reads."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: Kind
    """single: one label a text, by softmax. multi: any number of labels a text, by a sigmoid for
    each. score: a number."""
    labels: tuple[str, ...] = ()
    """The labels in the order of the layer's outputs; none for a score."""
    temperature: PositiveFloat = 1.0
    """Divides the outputs before they become probabilities."""
    pooling: Annotated[str, AfterValidator(POOLINGS.check)] | None = None
    """The pooling of the last layer that the head reads, such as "cls"; None for the encoder's."""
    heads: bool = True
    """Whether the vector passes the encoder's own heads (Dense, Normalize) first."""
    pairs: bool = False
    """Whether a text is a pair, whose two texts are one sequence."""
    max_length: PositiveInt | None = None
    """Tokens that a text is cut to; None for the encoder's limit."""
    calibration_rows: NonNegativeInt = 0
    """Rows to which the temperature was fitted; 0 where it is 1."""

    columns: tuple[str, ...] = ()
    """The columns of the texts that it learned from, two of a pair; empty if none were named."""

    @model_validator(mode="after")
    def _check_labels(self) -> Self:
        fewest = {"single": 2, "multi": 1, "score": 0}[self.kind]
        if len(self.labels) < fewest:
            raise ValueError(f"kind {self.kind} needs {counted(fewest, 'label')} or more")
        if self.kind == "score" and self.labels:
            raise ValueError("kind score has no labels")
        if len(set(self.labels)) < len(self.labels) or "" in self.labels:
            raise ValueError("each label has to be another text, and none empty")
        return self

    @property
    def width(self) -> int:
        """The number of outputs: one for each label, or a single score."""
        return max(1, len(self.labels))


@dataclass(frozen=True, eq=False)
class ClassifierHead:
    """A linear layer on vectors [N, d], and what its outputs mean.

    Raises:
        InputError: the weights have another shape than the labels need, or are not finite.
    """

    settings: HeadSettings
    weights: NDArray[np.float32]
    """[classes, d]"""
    bias: NDArray[np.float32]
    """[classes]"""

    def __post_init__(self) -> None:
        count = self.settings.width
        shapes = (self.weights.shape, self.bias.shape)
        if self.weights.ndim != 2 or shapes != ((count, self.dimension), (count,)):
            raise InputError(
                f"a classifier with {counted(count, 'output')} has weights of shape "
                f"{list(shapes[0])} and a bias of shape {list(shapes[1])}; they have to be "
                f"[{count}, features] and [{count}]"
            )
        if not np.isfinite(self.weights).all() or not np.isfinite(self.bias).all():
            raise InputError("a classifier's weights have NaN or infinite values")

    @classmethod
    def of_layer(cls, linear: nn.Linear, settings: HeadSettings) -> Self:
        """The head of a trained layer, whose weights are copied."""
        weights = linear.weight.detach().cpu().float().numpy().copy()
        bias = linear.bias.detach().cpu().float().numpy().copy()
        return cls(settings, weights, bias)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in the order of the outputs; none for scores."""
        return self.settings.labels

    @property
    def kind(self) -> Kind:
        """What is predicted: a "single" label, "multi" labels or a "score"."""
        return self.settings.kind

    @property
    def dimension(self) -> int:
        """The number of features d of the vectors that the head reads."""
        return self.weights.shape[-1]

    def outputs(self, vectors: NDArray[np.float32]) -> Outputs:
        """The outputs [N, classes] of the layer for vectors [N, d]."""
        return vectors @ self.weights.T + self.bias

    def probabilities(self, outputs: Outputs) -> NDArray[np.float32]:
        """The calibrated probabilities [N, classes] of outputs [N, classes].

        Raises:
            InputError: the head predicts scores.
        """
        from scipy.special import expit, softmax

        scaled = outputs / self.settings.temperature
        match self.kind:
            case "single":
                probabilities = softmax(scaled, axis=1)
            case "multi":
                probabilities = expit(scaled)
            case "score":
                raise InputError("this classifier predicts numbers, which have no probabilities")
        return np.asarray(probabilities, np.float32)

    def predictions(self, outputs: Outputs) -> Predictions:
        """The label, the labels or the score of each text, from the outputs [N, classes].

        Of several labels, those with a probability above 0.5 are given.
        """
        match self.kind:
            case "single":
                return [self.labels[number] for number in outputs.argmax(axis=1)]
            case "multi":
                return [self._chosen(row) for row in outputs > 0]
            case "score":
                scores: list[float] = outputs[:, 0].tolist()
                return scores

    def _chosen(self, is_chosen: NDArray[np.bool_]) -> tuple[str, ...]:
        return tuple(self.labels[number] for number in np.flatnonzero(is_chosen))

    def calibrated(self, outputs: Outputs, targets: NDArray[np.integer]) -> Self:
        """The head with the temperature that minimises the log loss on rows set apart.

        Guo et al. (2017, section 4.2) fit this temperature. As in Platt (1999, section 2.2), a
        right label counts a little less than 1, so that rows without an error give no temperature
        of 0.

        Args:
            outputs: [N, classes] the outputs for N rows; without a row, nothing is changed.
            targets: [N] the number of each row's label, or for several labels [N, classes], 1 for
                each label that the row has and 0 for the others.
        """
        from scipy.optimize import minimize_scalar

        if not len(outputs):
            return self
        if self.kind == "multi":
            log_loss = _log_loss_of_several
            smoothed = _smoothed_of_several(targets)
        else:
            log_loss = _log_loss
            smoothed = _smoothed(targets, outputs.shape[1])
        exact = outputs.astype(np.float64)

        def loss(log_temperature: float) -> float:
            return log_loss(np.exp(log_temperature), exact, smoothed)

        found = minimize_scalar(loss, bounds=LOG_TEMPERATURES, method="bounded")
        settings = self.settings.model_copy(
            update={"temperature": float(np.exp(found.x)), "calibration_rows": len(outputs)}
        )
        return replace(self, settings=settings)

    def with_columns(self, columns: Sequence[str]) -> Self:
        """The head with the names of the columns of its texts."""
        return replace(self, settings=self.settings.model_copy(update={"columns": tuple(columns)}))

    def save(self, folder: Path) -> None:
        """Writes the head into a new folder."""
        folder.mkdir()
        classes, features = self.weights.shape
        config = {
            "in_features": features,
            "out_features": classes,
            "bias": True,
            "activation_function": "torch.nn.modules.linear.Identity",
        }
        tensors = {
            "linear.weight": torch.from_numpy(self.weights),
            "linear.bias": torch.from_numpy(self.bias),
        }
        write_module(folder, config, tensors)
        # Older releases of sentence-transformers take no further key in config.json.
        write_json(folder / SETTINGS, self.settings.model_dump())

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Reads a folder that `save` has written.

        Raises:
            InputError: a file is missing or damaged, or the files don't fit each other.
        """
        check_files(folder)
        try:
            settings = HeadSettings.model_validate(read_json(folder / SETTINGS))
        except ValidationError as error:
            raise invalid(f"{folder / SETTINGS}", error) from error
        with load_errors(folder):
            tensors = read_tensors(folder)
            weights = tensors["linear.weight"].float().numpy()
            bias = tensors["linear.bias"].float().numpy()
            return cls(settings, weights, bias)


def _log_loss(
    temperature: float, outputs: NDArray[np.float64], smoothed: NDArray[np.float64]
) -> float:
    """The mean log loss of a softmax of outputs [N, classes] with targets [N, classes]."""
    from scipy.special import log_softmax

    likelihoods = smoothed * log_softmax(outputs / temperature, axis=1)
    return -float(likelihoods.sum(axis=1).mean())


def _log_loss_of_several(
    temperature: float, outputs: NDArray[np.float64], smoothed: NDArray[np.float64]
) -> float:
    """The mean log loss of a sigmoid for each of the outputs [N, classes].

    The targets [N, classes] are the probabilities of the labels.
    """
    from scipy.special import log_expit

    scaled = outputs / temperature
    likelihoods = smoothed * log_expit(scaled) + (1 - smoothed) * log_expit(-scaled)
    return -float(likelihoods.mean())


def _smoothed(targets: NDArray[np.integer], classes: int) -> NDArray[np.float64]:
    """Platt's targets [N, classes] for the numbers [N] of the labels."""
    rows = len(targets)
    smoothed = np.full((rows, classes), 1 / (rows + classes))
    smoothed[np.arange(rows), targets] = (rows + 1) / (rows + classes)
    return smoothed


def _smoothed_of_several(targets: NDArray[np.integer]) -> NDArray[np.float64]:
    """Platt's targets [N, classes] for targets [N, classes] of 1 and 0."""
    rows = len(targets)
    return (rows * targets + 1) / (rows + 2)


def head_folder(task: str) -> str:
    """The name of the folder of a task's head; the task of an encoder with a single task is ""."""
    if not task:
        return FOLDER
    return f"{FOLDER}-{task}"


def tasks_of(folder: Path) -> list[str]:
    """The tasks of the heads in an encoder's folder; [""] where there is a single one."""
    tasks = []
    for path in sorted(folder.glob(f"{FOLDER}*/{SETTINGS}")):
        tasks.append(path.parent.name.removeprefix(FOLDER).removeprefix("-"))
    return tasks


def choose_task(tasks: Sequence[str], task: str | None, model: object) -> str:
    """The task to predict: the one that is asked for, or else the only one.

    Raises:
        InputError: the model has no head, or none for the task; or it has several, and none is
            asked for.
    """
    if not tasks:
        raise InputError(
            f"model {model}: it has no classifier, only an encoder; train one on texts with "
            "labels: isotune train FILE --method classifier"
        )
    if task is not None and task in tasks:
        return task
    if task is not None and tasks != [""]:
        raise unknown("task", task, tasks)
    if task is not None:
        raise InputError(f"task {task!r}: model {model} has a single classifier; leave task out")
    if len(tasks) > 1:
        raise InputError(f"model {model}: it has classifiers for {', '.join(tasks)}; name a task")
    return tasks[0]

"""Selection: which step's encoder is kept.

At every evaluation the encoder gets a score, and the weights with the best score so far are written to disk. The score
comes from the first of these that a run has:

- labelled rows, on which the method predicts (`DevRows`);
- dev pairs with scores (`DevPairs`);
- the training sentences, by a criterion without labels (`Unlabelled`);
- nothing: the last step is kept (`KeepLast`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Generator

from isotune.data import ScoredPairs
from isotune.data.tokens import TokenStore
from isotune.encoder.encoder import Encoder
from isotune.evaluation.metrics import measure
from isotune.evaluation.sts import cosine_similarities, score
from isotune.evaluation.unlabelled import SELECTION_CRITERION
from isotune.methods.method import Batch, Method
from isotune.methods.protocols import ScoresRows, SeveralFeeds
from isotune.recipes import TrainingOptions
from isotune.training.checkpoint import Progress
from isotune.training.encoding import encode_views
from isotune.training.monitor import Monitor
from isotune.training.recorder import Recorder

ROWS_AT_ONCE = 64  # labelled rows that are predicted together


@dataclass(frozen=True)
class Score:
    """How good an encoder is.

    Attributes:
        value: higher is better.
        name: the metric or criterion.
        parts: the values that `value` is the mean of, where it is a mean.
    """

    value: float
    name: str
    parts: Mapping[str, float] = field(default_factory=dict)


class Criterion(ABC):
    """Scores an encoder."""

    @abstractmethod
    def score(self, encoder: Encoder, unlabelled: Mapping[str, float]) -> Score | None:
        """The encoder's score; None if no step is better than another. `unlabelled` are the monitor's criteria."""


class KeepLast(Criterion):
    """Keeps the last step."""

    def score(self, encoder: Encoder, unlabelled: Mapping[str, float]) -> None:
        """No score."""
        return None


class Unlabelled(Criterion):
    """Scores by a criterion on training sentences."""

    def score(self, encoder: Encoder, unlabelled: Mapping[str, float]) -> Score:
        """The criterion `evaluation.unlabelled.SELECTION_CRITERION`."""
        return Score(unlabelled[SELECTION_CRITERION], SELECTION_CRITERION)


@dataclass(frozen=True)
class DevPairs(Criterion):
    """Scores by the correlation of cosines with gold scores.

    Attributes:
        pairs: the dev pairs.
        metric: "spearman" or "pearson".
    """

    pairs: ScoredPairs
    metric: str

    def score(self, encoder: Encoder, unlabelled: Mapping[str, float]) -> Score:
        """The correlation over all pairs."""
        result = score(self.pairs, cosine_similarities(encoder, self.pairs))
        return Score(getattr(result, self.metric).all, self.metric)


class DevRows(Criterion):
    """Scores by a method's predictions on labelled rows."""

    def __init__(self, method: Method, stores: Mapping[str, TokenStore]) -> None:
        """Takes a method that implements `ScoresRows`, and the tokens of its dev feeds by name."""
        assert isinstance(method, ScoresRows)
        self.method, self.stores = method, stores
        self._feeds = method.dev_feeds()
        self._predict = method.predict

    def score(self, encoder: Encoder, unlabelled: Mapping[str, float]) -> Score:
        """The mean of all metrics of all feeds."""
        parts: dict[str, float] = {}
        for name, feed in self._feeds.items():
            targets, predictions = self._predictions(encoder, name)
            parts |= {name or metric: measure(metric, targets, predictions) for metric in feed.metrics}
        value = fmean(parts.values())
        return Score(value, "mean", parts) if len(parts) > 1 else Score(value, next(iter(parts)))

    @torch.no_grad()
    def _predictions(self, encoder: Encoder, name: str) -> tuple[np.ndarray, np.ndarray]:
        """The true and the predicted class numbers or scores of a feed's rows, [rows] each."""
        encoder.eval()
        self.method.eval()
        store, predictions = self.stores[name], []
        assert store.targets is not None
        for rows in np.array_split(np.arange(len(store)), -(-len(store) // ROWS_AT_ONCE)):
            batch = Batch(tuple(tokens.to(encoder.device) for tokens in store.pack(rows)))
            asked = Batch(tasks={name: batch}) if isinstance(self.method, SeveralFeeds) else batch
            encoded = encode_views(encoder, self.method.views(asked), Generator(encoder.device))
            predictions.append(self._predict(name, encoded))
        return store.targets.numpy(), torch.cat(predictions).cpu().numpy()


class Selection:
    """Scores the encoder at every evaluation, and says whether it is the best so far."""

    def __init__(self, criterion: Criterion, monitor: Monitor, options: TrainingOptions, recorder: Recorder) -> None:
        self.criterion = criterion
        self.monitor = monitor
        self.options = options
        self.recorder = recorder

    def is_best(self, encoder: Encoder, progress: Progress, total: int) -> bool:
        """Evaluates the encoder, writes the records of the evaluation, and notes in `progress` when patience is over.

        Args:
            encoder: the encoder, as it would be kept.
            progress: how far the run is; its scores are updated.
            total: the number of updates of the stage.

        Raises:
            InputError: the encoder's vectors are not finite.
        """
        space, unlabelled = self.monitor.measure(encoder)
        result = self.criterion.score(encoder, unlabelled)
        progress.start_space = self.monitor.start
        best = result is None or self._judge(result.value, progress)
        self._record(space, unlabelled, result, best, progress)
        parts = [f"mean cosine {space['mean_cosine']:.3f}", f"effective rank {space['effective_rank']:.1f}"]
        if result is not None:
            by_pairs = f"dev {result.name} {100 * result.value:.2f}"
            shown = f"{result.name} {result.value:.3f}" if isinstance(self.criterion, Unlabelled) else by_pairs
            parts.insert(0, shown + (" (best)" if best else ""))
        self.recorder.say(f"step {progress.step} of {total}: {', '.join(parts)}")
        if warning := self.monitor.warning(space):
            self.recorder.warn(progress.offset + progress.step, warning)
        return best

    def _judge(self, value: float, progress: Progress) -> bool:
        """Whether this score is a new best. Updates the best score, and the count for patience."""
        best = progress.best_score is None or value > progress.best_score
        if self.options.early_stopping == "previous":
            progress.stale += progress.last_score is not None and value < progress.last_score
        else:
            progress.stale = 0 if best else progress.stale + 1
        progress.best_score = value if best else progress.best_score
        progress.last_score = value
        progress.done |= self.options.patience is not None and progress.stale >= self.options.patience
        return best

    def _record(
        self,
        space: Mapping[str, float],
        unlabelled: Mapping[str, float],
        result: Score | None,
        best: bool,
        progress: Progress,
    ) -> None:
        """Writes what was measured to metrics.jsonl."""
        place: dict[str, Any] = {"stage": progress.stage + 1, "step": progress.offset + progress.step}
        self.recorder.record("space", **place, **space)
        chosen = {"best": best} if isinstance(self.criterion, Unlabelled) else {}
        self.recorder.record("unlabelled", **place, **unlabelled, **chosen)
        if result is not None and not isinstance(self.criterion, Unlabelled):
            self.recorder.record("dev", **place, metric=result.name, score=result.value, best=best, **result.parts)

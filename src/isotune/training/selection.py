"""Selection: which step's encoder is kept.

At every evaluation the encoder gets a score, and the weights with the best score so far are written to disk. The score
comes from the first of these that a run has:

- labelled rows, on which the method predicts (`score_rows`);
- dev pairs with scores (`score_pairs`).

Without either of them the last step is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import NamedTuple

from isotune.data import ScoredPairs
from isotune.data.tokens import TokenStore
from isotune.encoder.encoder import Encoder
from isotune.evaluation.sts import cosine_similarities, score
from isotune.methods.method import Method
from isotune.methods.protocols import ScoresRows
from isotune.recipes import TrainingOptions
from isotune.training.monitor import Monitor
from isotune.training.predictions import measure_all, predict
from isotune.training.recorder import Recorder
from isotune.training.run_folder import Progress
from isotune.training.workers import SharedEncoder, Workers


class Score(NamedTuple):
    """How good an encoder is."""

    value: float  # higher is better
    name: str  # the metric
    parts: Mapping[str, float] = {}  # the values whose mean is `value`, where it is a mean


Scorer = Callable[[Encoder], Score]


def choose_scorer(
    metric: str, method: Method, dev: ScoredPairs | None, dev_rows: Mapping[str, TokenStore], workers: Workers
) -> Scorer | None:
    """What scores the steps of a stage; None if the last step is kept."""
    if isinstance(method, ScoresRows):
        return partial(score_rows, method=method, dev_rows=dev_rows, workers=workers)
    if dev is not None:
        return partial(score_pairs, pairs=dev, metric=metric, workers=workers)
    return None


def score_pairs(encoder: Encoder, pairs: ScoredPairs, metric: str, workers: Workers) -> Score:
    """Scores by the correlation ("spearman" or "pearson") of cosines with gold scores, over all pairs."""
    cosines = cosine_similarities(SharedEncoder(encoder, workers), pairs)
    return Score(getattr(score(pairs, cosines), metric).all, metric)


def score_rows(encoder: Encoder, method: Method, dev_rows: Mapping[str, TokenStore], workers: Workers) -> Score:
    """Scores by the mean of all metrics of a method's predictions, over all of its dev feeds."""
    assert isinstance(method, ScoresRows)
    feeds = method.dev_feeds()
    parts = measure_all(feeds, predict(encoder, method, feeds, dev_rows, workers))
    value = fmean(parts.values())
    return Score(value, "mean", parts) if len(parts) > 1 else Score(value, next(iter(parts)))


@dataclass
class Selection:
    """Scores the encoder at every evaluation, and says whether it is the best so far."""

    scorer: Scorer | None  # None if the last step is kept
    monitor: Monitor
    options: TrainingOptions
    recorder: Recorder

    def is_best(self, encoder: Encoder, progress: Progress, total: int) -> bool:
        """Evaluates the encoder, writes the records of the evaluation, and updates the scores in `progress`."""
        space = self.monitor.measure(encoder)
        progress.start_space = self.monitor.start
        result = self.scorer and self.scorer(encoder)
        best = result is None or self._judge(result.value, progress)
        record = partial(self.recorder.record, stage=progress.stage + 1, step=progress.offset + progress.step)
        record("space", **space)
        text = ""
        if result:
            record("dev", metric=result.name, score=result.value, best=best, **result.parts)
            self.recorder.show("dev", f"{100 * result.value:.2f}")
            text = f"dev {result.name} {100 * result.value:.2f}{' (best)' if best else ''}, "
        text += f"mean cosine {space['mean_cosine']:.3f}, effective rank {space['effective_rank']:.1f}"
        self.recorder.say(f"step {progress.step} of {total}: {text}")
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

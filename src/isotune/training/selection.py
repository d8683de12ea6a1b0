"""Selection: which step's encoder is kept, and what a method predicts on labelled rows.

At every evaluation the encoder gets a score, and the weights of the step to keep so far are written
to disk. The score is that of labelled dev rows, on which the method predicts (`score_rows`), or
else of the dev data, scored pairs or a retrieval (`score_task`). Without either of them the last
step is kept. A stage may also bound what the encoder forgets (`most_forgotten`): the first
evaluation at which too much is lost on general pairs ends the stage, and its weights are not kept.

Contrastive learning should spread the vectors: their mean cosine falls and their effective rank
rises. The opposite is a collapse, which the loss alone can hide. So a fixed sample of training
sentences is encoded at every evaluation.

When a stage is over, predictions.npz gets the predictions of the kept encoder: "dev" and "test", or
"dev:NAME" and "test:NAME" if the method has several tasks, [N] each, in the order of the rows.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from isotune.data.packed import Packed
from isotune.data.tokens import TokenDataset
from isotune.encoder.classifier_head import ClassifierHead
from isotune.encoder.encoder import Encoder
from isotune.encoder.pooling import change_pooling
from isotune.engine.forward import StepEncoding
from isotune.engine.workers import Workers
from isotune.errors import InputError, UselessVectors, counted
from isotune.evaluation import DevTask, load_dev
from isotune.evaluation.geometry import effective_rank, mean_cosine
from isotune.evaluation.metrics import Values, compute_metric
from isotune.evaluation.tasks import GENERAL_PAIRS
from isotune.evaluation.vectors import Floats
from isotune.files import write_arrays
from isotune.kernels.cpu.float32 import fast_float32
from isotune.methods.method import ROWS, Batch, Method, ScoredFeed, Split
from isotune.recipes import TrainingOptions
from isotune.training.recorder import Recorder, RunContext
from isotune.training.run_data import StageData
from isotune.training.run_folder import Progress

PREDICTIONS = "predictions.npz"

ROWS_AT_ONCE = 64
"""Labelled rows that are predicted together."""

MONITORED = 256
"""Sentences of the sample that shows a collapse."""


class Score(NamedTuple):
    """How good an encoder is."""

    value: float
    """Higher is better."""

    name: str
    """The metric."""

    parts: Mapping[str, float] = {}
    """The values whose mean is `value`, where it is a mean."""

    samples: Floats | None = None
    """[resamples] the scores on samples of the dev data, where these choose among candidates."""


Scorer = Callable[[Encoder], Score]


def choose_scorer(
    options: TrainingOptions,
    method: Method,
    dev: DevTask | None,
    dev_rows: Mapping[str, TokenDataset],
    workers: Workers,
) -> Scorer | None:
    """What scores the steps of a stage; None if the last step is kept."""
    if dev_rows:
        return partial(
            score_rows,
            method=method,
            dev_rows=dev_rows,
            workers=workers,
            chunk_size=options.chunk_size,
        )
    if dev is not None and is_chosen_by_dev(method):
        return partial(
            score_task,
            task=dev,
            workers=workers,
            layers=options.as_released.dev_layers,
            resamples=options.interpolations is not None,
        )
    return None


def is_chosen_by_dev(method: Method) -> bool:
    """Whether dev data choose the step of a stage with this method, if the run has dev data.

    Labelled rows of the method choose in their place.
    """
    return method.tunes and not method.options.keeps_last and not method.scored("dev")


def general_scorer(options: TrainingOptions, workers: Workers) -> Scorer | None:
    """What scores the general pairs; None if the stage doesn't bound what is forgotten."""
    if options.most_forgotten is None:
        return None
    return partial(score_task, task=load_dev(GENERAL_PAIRS), workers=workers)


def score_task(
    encoder: Encoder,
    task: DevTask,
    workers: Workers,
    layers: Sequence[int] | None = None,
    resamples: bool = False,
) -> Score:
    """Scores by the task's first measure, with other `layers` if given.

    `resamples` asks for the scores on samples of the rows too. The first process encodes, so that
    all processes decide by the same score.
    """
    pooling = change_pooling(encoder.pooling, None, layers, encoder.backbone.layers)

    def score_or_error() -> Score | InputError:
        try:
            result, values = task.score(encoder.with_parts(pooling=pooling))
        except InputError as error:
            return error
        score = Score(result.scores()[task.name], task.measure)
        if not resamples:
            return score
        return score._replace(samples=task.resampled(values)[task.name])

    result = workers.on_rank_zero(score_or_error)
    # All processes raise the error of the first.
    if isinstance(result, InputError):
        raise result
    return result


def score_rows(
    encoder: Encoder,
    method: Method,
    dev_rows: Mapping[str, TokenDataset],
    workers: Workers,
    chunk_size: int | None,
) -> Score:
    """Scores by the mean of all metrics of a method's predictions, over all of its dev rows."""
    feeds = method.scored("dev")
    predictions = predict(encoder, method, feeds, dev_rows, workers, chunk_size)
    parts = compute_metrics(feeds, predictions)
    value = fmean(parts.values())
    if len(parts) == 1:
        (metric,) = parts
        return Score(value, metric)
    return Score(value, "mean", parts)


def monitored_sentences(store: TokenDataset) -> Packed:
    """The first texts of rows at equal distances: the first rows may all be from one place."""
    count = min(MONITORED, len(store))
    rows = np.linspace(0, len(store) - 1, count).astype(np.int64)
    return store.pack_sequences(rows * store.columns)


@torch.no_grad()
def measure_space(encoder: Encoder, sentences: Packed) -> dict[str, float]:
    """Measures the mean cosine between different sentences, and the effective rank.

    A mean cosine of 1 is a point. The effective rank is the number of directions in use.
    """
    encoder.eval()
    batches = encoder.batches(sentences.lengths.numpy())
    parts = [part for part in sentences.cut(len(batches)) if len(part)]
    encoded = [encoder(part.to(encoder.device)) for part in parts]
    vectors = torch.cat(encoded).cpu()  # [N, d]
    if not vectors.isfinite().all():
        raise UselessVectors("the encoder gives vectors with NaN or infinite values")
    return {"mean_cosine": mean_cosine(vectors), "effective_rank": effective_rank(vectors)}


@dataclass(frozen=True)
class StepScores:
    """What an evaluation says of the encoder at a step."""

    space: dict[str, float]
    """The result of `measure_space`."""

    dev: Score | None
    """The score that chooses the step; None if the last step is kept."""

    general: float | None
    """The score on general pairs; None if the stage doesn't bound what is forgotten."""


@dataclass
class Selection:
    """Scores the encoder at every evaluation, and says whether to keep it."""

    scorer: Scorer | None
    """What scores a step; None if the last step is kept."""

    general: Scorer | None
    """What scores general pairs; None if the stage doesn't bound what is forgotten."""

    monitored: Packed
    """The sentences that show a collapse."""

    gathers_classes: bool
    """Whether the method gathers the texts of a class, which lowers the effective rank."""

    learns_space: bool
    """Whether the method learns the vectors of another encoder, however near these are."""

    options: TrainingOptions
    recorder: Recorder
    progress: Progress

    @property
    def chooses_step(self) -> bool:
        """Whether any score decides which step is kept."""
        return self.scorer is not None or self.general is not None

    def score(self, encoder: Encoder) -> StepScores:
        """Scores the encoder.

        Nothing is recorded or changed, so that a signal may break this off.
        """
        space = measure_space(encoder, self.monitored)
        dev = None
        if self.scorer:
            dev = self.scorer(encoder)
        general = None
        if self.general:
            general = self.general(encoder).value
        return StepScores(space, dev, general)

    def decide(self, scores: StepScores, total: int) -> bool:
        """Says whether to keep the encoder.

        Writes the records, and ends the stage of `total` steps if it is time.
        """
        progress = self.progress
        if progress.start_space is None:
            progress.start_space = scores.space
        if progress.start_general is None:
            progress.start_general = scores.general
        lost = self.lost(scores.general)
        bound = self.options.most_forgotten
        forgotten = bound is not None and lost > bound
        keep = self._keeps(scores.dev, forgotten)
        self._record(scores, lost, keep)
        self.recorder.say(f"step {progress.step} of {total}: {_words_of(scores, lost, keep)}")
        collapse = self._collapse(scores.space, progress.start_space)
        if collapse:
            self._warn(
                f"the space is collapsing: the {collapse} on a sample of the text; "
                "try a lower learning_rate"
            )
        if forgotten:
            kept = "an earlier step is kept"
            if self.options.interpolations is not None:
                kept = "a step or share that loses less is kept"
            self._warn(
                f"the encoder has lost {lost:.2f} on the general pairs ({GENERAL_PAIRS}), more "
                f"than most_forgotten {self.options.most_forgotten:g}: training ends, and {kept}"
            )
            progress.end(f"too much was forgotten at step {progress.step} of {total}")
        if self.options.patience is not None and progress.stale >= self.options.patience:
            progress.end(
                f"{progress.stale} evaluations were no better, at step {progress.step} of {total}"
            )
        return keep

    def _collapse(self, space: Mapping[str, float], start: Mapping[str, float]) -> str:
        """How the space has closed up since the start; empty if it has not."""
        if self.learns_space:
            return ""
        rank = space["effective_rank"]
        if rank < start["effective_rank"] / 2 and not self.gathers_classes:
            return f"effective rank fell from {start['effective_rank']:.1f} to {rank:.1f}"
        cosine = space["mean_cosine"]
        if cosine > max(0.95, start["mean_cosine"] + 0.01):
            return f"mean cosine rose from {start['mean_cosine']:.2f} to {cosine:.2f}"
        return ""

    def lost(self, general: float | None) -> float:
        """How far a score on general pairs is below that of the stage's start, Spearman x 100.

        0 if nothing bounds it.
        """
        if general is None or self.progress.start_general is None:
            return 0.0
        return 100 * (self.progress.start_general - general)

    def _keeps(self, dev: Score | None, forgotten: bool) -> bool:
        """Whether to keep an encoder with this score."""
        if forgotten:
            return False
        # With whole_epochs the start is a placeholder until the first evaluation, whatever its
        # score.
        placeholder = self.options.as_released.whole_epochs and not self.progress.step
        if dev is None or placeholder:
            return True
        return self._improves(dev.value)

    def _improves(self, value: float) -> bool:
        """Whether the score is the best so far. Updates the scores, and the count for patience."""
        progress = self.progress
        if progress.first_score is None:
            progress.first_score = value
        best = progress.best_score is None or value > progress.best_score
        if self.options.as_released.early_stopping == "previous":
            if progress.last_score is not None and value < progress.last_score:
                progress.stale += 1
        elif best:
            progress.stale = 0
        else:
            progress.stale += 1
        if best:
            progress.best_score = value
        # The start is no evaluation that a later one may fall below.
        progress.last_score = value if progress.step else None
        return best

    def _record(self, scores: StepScores, lost: float, keep: bool) -> None:
        progress = self.progress
        step = progress.offset + progress.step
        record = partial(self.recorder.record, stage=progress.stage + 1, step=step)
        record("space", **scores.space)
        dev = scores.dev
        if dev:
            # The encoder that is best is kept so far.
            record("dev", metric=dev.name, score=dev.value, best=keep, **dev.parts)
            self.recorder.show("dev", f"{100 * dev.value:.2f}")
        if scores.general is not None:
            record("general", lost=lost)

    def _warn(self, text: str) -> None:
        self.recorder.warn(self.progress.offset + self.progress.step, text)


def _words_of(scores: StepScores, lost: float, keep: bool) -> str:
    """What the log says of an evaluation."""
    parts = []
    dev = scores.dev
    if dev:
        kept = " (kept for now)" if keep else ""
        parts.append(f"dev {dev.name} {100 * dev.value:.2f}{kept}")
    if scores.general is not None:
        # 0 - lost is never -0.
        parts.append(f"general pairs {0 - lost:+.2f}")
    parts.append(f"mean cosine {scores.space['mean_cosine']:.3f}")
    parts.append(f"effective rank {scores.space['effective_rank']:.1f}")
    return ", ".join(parts)


@fast_float32()
@torch.no_grad()
def predict(
    encoder: Encoder,
    method: Method,
    feeds: Mapping[str, ScoredFeed],
    rows: Mapping[str, TokenDataset],
    workers: Workers,
    chunk_size: int | None,
) -> dict[str, tuple[Values, Values]]:
    """What is predicted for the N rows of each feed, and what is right.

    Both are class numbers or scores [N]. The workers encode the rows together, in passes as those
    of a step.
    """
    result = {}
    for name, feed in feeds.items():
        predicted = []
        for encoded in _encoded(encoder, method, feed, rows[name], workers, chunk_size):
            predicted.append(method.predict(name, encoded))
        result[name] = torch.cat(predicted).cpu().numpy(), _right(feed, rows[name])
    return result


def _encoded(
    encoder: Encoder,
    method: Method,
    feed: ScoredFeed,
    store: TokenDataset,
    workers: Workers,
    chunk_size: int | None,
) -> Iterator[list[Tensor]]:
    """The vectors of each view of the feed's rows, some rows at a time."""
    encoder.eval()
    method.eval()
    first, end = _part(feed, len(store))
    if first == end:
        names = ", ".join(feed.data) or "rows to choose the step"
        raise InputError(f"{names}: {counted(len(store), 'row')}, too few: a part has no row")
    parts = math.ceil((end - first) / ROWS_AT_ONCE)
    for places in np.array_split(np.arange(first, end), parts):
        batch = Batch(tuple(tokens.to(encoder.device) for tokens in store.pack(places)))
        encoding = StepEncoding(encoder, workers, chunk_size=chunk_size)
        yield encoding.encode(method.views(batch))


def _part(feed: ScoredFeed, rows: int) -> tuple[int, int]:
    """The numbers of the feed's first row, and of the row after its last."""
    first, end = (round(share * rows) for share in feed.part)
    return first, end


def _right(feed: ScoredFeed, store: TokenDataset) -> Values:
    """The class numbers or scores [N] of the feed's rows."""
    first, end = _part(feed, len(store))
    assert store.targets is not None
    return store.targets[first:end].numpy()


@fast_float32()
@torch.no_grad()
def calibrated(
    heads: Mapping[str, ClassifierHead],
    encoder: Encoder,
    method: Method,
    dev_rows: Mapping[str, TokenDataset],
    workers: Workers,
    chunk_size: int | None,
) -> dict[str, ClassifierHead]:
    """The heads of a method, with temperatures that fit the dev rows; scores have none."""
    feeds = method.scored("dev")
    result = dict(heads)
    for name, head in heads.items():
        if head.kind == "score" or name not in dev_rows:
            continue
        outputs = []
        for encoded in _encoded(encoder, method, feeds[name], dev_rows[name], workers, chunk_size):
            outputs.append(head.outputs(encoded[0].cpu().numpy()))
        right = _right(feeds[name], dev_rows[name])
        result[name] = head.calibrated(np.concatenate(outputs), right.astype(np.int64))
    return result


def compute_metrics(
    feeds: Mapping[str, ScoredFeed], predictions: Mapping[str, tuple[Values, Values]]
) -> dict[str, float]:
    """The scores of all feeds, by their names, from what `predict` returns."""
    scores: dict[str, float] = {}
    for name, (predicted, right) in predictions.items():
        for score_name, metric in feeds[name].metrics.items():
            scores[score_name] = compute_metric(metric, right, predicted)
    return scores


def score_kept(
    encoder: Encoder,
    method: Method,
    data: StageData,
    run: RunContext,
    progress: Progress,
    chunk_size: int | None,
) -> None:
    """Scores a stage's kept weights on its test rows, as the record "test" of their step.

    Writes predictions.npz.
    """
    splits: dict[Split, Mapping[str, TokenDataset]] = {"dev": data.dev, "test": data.test}
    arrays: dict[str, Values] = {}
    for split, rows in splits.items():
        feeds = method.scored(split)
        predictions = predict(encoder, method, feeds, rows, run.workers, chunk_size)
        for name, (predicted, _) in predictions.items():
            array = split if name == ROWS else f"{split}:{name}"
            arrays[array] = predicted
        if split == "test" and feeds:
            scores = compute_metrics(feeds, predictions)
            run.recorder.record("test", stage=progress.stage + 1, step=progress.best_step, **scores)
            texts = [f"{name} {100 * value:.2f}" for name, value in scores.items()]
            run.recorder.say(f"test rows, on which nothing was chosen: {', '.join(texts)}")
    run.workers.on_rank_zero(write_arrays, run.folder / PREDICTIONS, arrays)

"""What a method predicts on labelled rows: on dev rows at every evaluation, on test rows once, when its stage is over.

predictions.npz has the predictions of the kept encoder: "dev" and "test", or "dev:NAME" and "test:NAME" if the method
has several tasks, [N] each, in the order of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from isotune.data.tokens import TokenStore
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.evaluation.metrics import Values, measure
from isotune.files import replacing
from isotune.methods.method import Batch, Method
from isotune.methods.protocols import Feed, ScoresRows, SeveralFeeds
from isotune.training.corpora import StageData
from isotune.training.forward import StepEncoding
from isotune.training.recorder import Recorder
from isotune.training.run_folder import Progress
from isotune.training.workers import Workers

PREDICTIONS = "predictions.npz"
ROWS_AT_ONCE = 64  # labelled rows that are predicted together


class Predictions(NamedTuple):
    """What a method predicts for the N rows of a feed, and what is right."""

    predicted: Values  # [N] class numbers or scores
    targets: Values  # [N]


@torch.no_grad()
def predict(
    encoder: Encoder, method: Method, feeds: Mapping[str, Feed], rows: Mapping[str, TokenStore], workers: Workers
) -> dict[str, Predictions]:
    """The predictions for the rows of each feed, which the workers encode together.

    Raises:
        InputError: a feed is a part of so few rows that none is left.
    """
    assert isinstance(method, ScoresRows)
    encoder.eval()
    method.eval()
    result = {}
    for name, feed in feeds.items():
        store, predicted = rows[name], []
        first, end = (round(share * len(store)) for share in feed.part)
        if first == end:
            raise InputError(f"{', '.join(feed.data)}: {len(store)} rows are too few; a part of them has no row")
        for places in np.array_split(np.arange(first, end), -(-(end - first) // ROWS_AT_ONCE)):
            batch = Batch(tuple(tokens.to(encoder.device) for tokens in store.pack(places)))
            asked = Batch(tasks={name: batch}) if isinstance(method, SeveralFeeds) else batch
            encoded = StepEncoding(encoder, workers).encode(method.views(asked))
            predicted.append(method.predict(name, encoded))
        assert store.targets is not None
        result[name] = Predictions(torch.cat(predicted).cpu().numpy(), store.targets[first:end].numpy())
    return result


def measure_all(feeds: Mapping[str, Feed], predictions: Mapping[str, Predictions]) -> dict[str, float]:
    """The metrics of all feeds, by the name of the feed, or by that of the metric if there is a single feed."""
    return {
        name or metric: measure(metric, predictions[name].targets, predictions[name].predicted)
        for name, feed in feeds.items()
        for metric in feed.metrics
    }


def score_kept(
    encoder: Encoder,
    method: Method,
    data: StageData,
    folder: Path,
    recorder: Recorder,
    progress: Progress,
    workers: Workers,
) -> None:
    """Scores a stage's best weights on the test rows, if there are any, and writes predictions.npz.

    The metrics are the record "test" of metrics.jsonl, for the step that they belong to.
    """
    assert isinstance(method, ScoresRows)
    splits = {"dev": (method.dev_feeds(), data.dev), "test": (method.test_feeds(), data.test)}
    arrays: dict[str, Values] = {}
    for split, (feeds, rows) in splits.items():
        predictions = predict(encoder, method, feeds, rows, workers)
        arrays |= {f"{split}:{name}".rstrip(":"): of_feed.predicted for name, of_feed in predictions.items()}
        if split == "test" and feeds:
            parts = measure_all(feeds, predictions)
            recorder.record("test", stage=progress.stage + 1, step=progress.best_step, **parts)
            texts = [f"{name} {100 * value:.2f}" for name, value in parts.items()]
            recorder.say(f"test rows, on which nothing was chosen: {', '.join(texts)}")
    workers.by_leader(partial(_write, folder / PREDICTIONS, arrays))


def _write(path: Path, arrays: Mapping[str, Values]) -> None:
    """Writes arrays into an .npz file, whole or not at all."""
    with replacing(path) as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # numpy's own option has another type

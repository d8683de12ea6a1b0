"""How long the stages of a run are, counted before the run: rows, steps and evaluations.

The rows are read and counted. Nothing is tokenized or trained. A stage may end before its last step
(`patience`), so that these are the most steps.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from isotune.data.rows import text_fields
from isotune.data.tokens import steps_per_epoch
from isotune.encoder.encoder import Encoder
from isotune.engine.objectives import build_objectives
from isotune.engine.workers import Workers
from isotune.methods.method import Method
from isotune.recipes import Recipe, Stage, TrainingOptions
from isotune.training.recorder import Recorder, RunContext
from isotune.training.run_data import RunData
from isotune.training.signals import StopSignal


@dataclass(frozen=True)
class StageLength:
    """How long a stage is."""

    texts: int
    """The texts of all rows, each of which is tokenized once."""

    cached: bool
    """Whether each text is encoded once, before the first step."""

    sentences: int
    """The sentences of the rows of all steps; a text counts in each epoch, and once a step."""

    steps: int
    """The updates."""

    evaluations: int
    """The evaluations that choose the step: of the start, in the stage, and of the last step."""


def stage_lengths(recipe: Recipe, model: str) -> list[StageLength]:
    """How long each stage of a recipe is.

    Args:
        recipe: what is trained, with data that have names.
        model: the model to start from. Its name or folder decides nothing but what methods ask of
            an encoder.

    Raises:
        InputError: the model or the data can't be read.
    """
    encoder = Encoder.load(model, **recipe.encoder.model_dump())
    lengths = []
    with TemporaryDirectory() as scratch, Recorder(None, quiet=True) as recorder:
        context = RunContext(
            folder=Path(scratch),
            recorder=recorder,
            stop=StopSignal(tell=False),
            seed=recipe.seed,
            workers=Workers(),
            began_at=time.monotonic(),
        )
        data = RunData(recipe, None, None, (), context)
        for stage in recipe.stages:
            objectives = build_objectives(stage, encoder)
            objectives.attach(encoder)
            lengths.append(_length(stage, objectives.method, data))
    return lengths


def _length(stage: Stage, method: Method, data: RunData) -> StageLength:
    options = stage.training
    feeds = method.feeds()
    counts = data.count(stage, method)
    texts = 0
    texts_of_step = 0
    for name, feed in feeds.items():
        columns = len(text_fields(feed.rows))
        texts += columns * counts[name]
        texts_of_step += columns * (feed.batch_size or options.batch_size)
    first = next(iter(feeds))
    batch_size = feeds[first].batch_size or options.batch_size
    epoch = steps_per_epoch(counts[first], batch_size, options.as_released.whole_epochs)
    steps = 1
    if stage.options.takes_steps:
        steps = options.total_steps(epoch)
    return StageLength(
        texts=texts,
        cached=method.cached,
        sentences=texts_of_step * steps,
        steps=steps,
        evaluations=1 + _evaluations(options, steps, epoch),
    )


def _evaluations(options: TrainingOptions, steps: int, epoch: int) -> int:
    """The evaluations after steps. The last step has one in any case."""
    count = 0
    for step in range(1, steps + 1):
        if step == steps or options.evaluates_after(step, epoch):
            count += 1
    return count

"""Single training steps, as a run makes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isotune.training.step import Stepper

TOTAL = 100  # steps of the schedule


@contextmanager
def stepper(
    model: str | Path, method: str, options: Mapping[str, Any], training: Mapping[str, Any], texts: Sequence[str]
) -> Iterator[Stepper]:
    """What makes the steps of a method on sentences; `Stepper.update(number)` makes one step.

    Args:
        model: a folder, or "bert-tiny".
        method: the method's name.
        options: the method's options.
        training: the training options.
        texts: the sentences to train on.
    """
    from isotune.methods.protocols import SINGLE_FEED

    from isotune.data.rows import Sentence
    from isotune.data.tokens import Tokenized, TokenStore
    from isotune.encoder.encoder import Encoder
    from isotune.kernels.float32 import fast_float32
    from isotune.recipes import Stage
    from isotune.training.feed import Feeder
    from isotune.training.objectives import build_objectives
    from isotune.training.step import Stepper
    from isotune.training.workers import workers_of_run

    encoder = Encoder.load(model, device="cpu")
    stage = Stage.model_validate({"method": method, **options, **training})
    objectives = build_objectives(stage, encoder)
    objectives.attach(encoder)
    store = TokenStore.build(
        map(Sentence, texts),
        Sentence,
        lambda columns: Tokenized([encoder.tokenize(columns[0], stage.training.max_length)]),
        encoder.max_length,
    )
    feeder = Feeder({SINGLE_FEED: store}, {SINGLE_FEED: stage.training.batch_size}, seed=0, stage=0)
    with workers_of_run() as workers, fast_float32():
        yield Stepper(encoder, objectives, feeder, stage.training, TOTAL, seed=0, stage=0, workers=workers)

"""Training without a run: rows go in, the encoder is trained, and each step says what it did.

The loop knows no folder, no log and no checkpoint, and evaluates nothing. A run has a loop of its
own, `StageTraining._take_steps`; both call the same `Stepper`.

    encoder = Encoder.load("bert-tiny")
    stage = Stage.model_validate({"method": "simcse", "epochs": 1})
    objectives = build_objectives(stage, encoder)
    rows = [Sentence(text) for text in texts]
    for update in train_steps(encoder, objectives, rows, stage.training):
        print(update.step, update.loss.item())

Its weights are those of the first stage of a run (`isotune.train`), to the last bit, if the new
layers come from the same seed, derive_seed(seed, "method", 0), and the caller computes as a run
does (`kernels/cpu/float32.py`, and `no_denormals` of `kernels/threads.py`).
"""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from tempfile import gettempdir

from isotune.data.rows import Row
from isotune.data.tokens import TokenDataset
from isotune.encoder.encoder import Encoder
from isotune.engine.loader import StepLoader
from isotune.engine.objectives import Objectives
from isotune.engine.step import Stepper, Update
from isotune.engine.workers import Workers
from isotune.methods.method import ROWS, Method
from isotune.recipes import TrainingOptions


def train_steps(
    encoder: Encoder,
    objectives: Objectives,
    rows: Iterable[Row],
    options: TrainingOptions,
    seed: int = 0,
    workers: Workers | None = None,
) -> Iterator[Update]:
    """Trains the encoder on rows of the method's type; yields what each update did.

    The method is one that takes steps, on one kind of rows. `workers` are this thread alone unless
    they are given.
    """
    objectives.attach(encoder)
    objectives.to(encoder.device)
    tokens = tokenized(rows, objectives.method, encoder, options)
    stepper = Stepper(
        seed=seed,
        stage=0,
        workers=workers or Workers(),
        scratch=Path(gettempdir()),
        encoder=encoder,
        objectives=objectives,
        loader=StepLoader({ROWS: tokens}, objectives.method.feeds(), options, seed, stage=0),
        options=options,
    )
    stepper.prepare()
    for step in range(stepper.total):
        with encoder.backbone.dropout(options.model_dropout, options.attention_dropout):
            update = stepper.update(step)
        yield update


def tokenized(
    rows: Iterable[Row], method: Method, encoder: Encoder, options: TrainingOptions
) -> TokenDataset:
    """The tokens of the rows that a method makes from these rows."""
    (feed,) = method.feeds().values()
    length = min(options.max_length, encoder.max_length)
    return TokenDataset.build(
        method.prepare(rows, cache=None, say=lambda line: None),
        feed.rows,
        partial(method.tokenize, encoder, max_length=length),
        length,
        classes=feed.classes,
        keep_text=method.needs_text,
    )

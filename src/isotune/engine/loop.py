"""Training without a run: rows go in, the encoder is trained, and each step says what it did.

The loop knows no folder, no log and no checkpoint, and evaluates nothing:

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

import torch
from torch import nn

from isotune.data.draws import derive_seed
from isotune.data.rows import Row
from isotune.data.tokens import TokenStore
from isotune.encoder.encoder import Encoder
from isotune.engine.feed import Feeder
from isotune.engine.forward import StepEncoding
from isotune.engine.objectives import Objectives
from isotune.engine.step import Update, autocast, build_optimizer, compute_once, schedule
from isotune.engine.workers import Workers
from isotune.kernels.threads import drawing
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
    workers = workers or Workers()
    objectives.attach(encoder)
    objectives.to(encoder.device)
    tokens = tokenized(rows, objectives.method, encoder, options)
    feeder = Feeder({ROWS: tokens}, objectives.method.feeds(), options, seed, stage=0)
    total = options.total_steps(feeder.steps_per_epoch)
    warmup = options.warmup_steps(total, feeder.steps_per_epoch)
    optimizer = build_optimizer(encoder, objectives, options)
    compute_once(objectives.method, feeder, encoder, Path(gettempdir()), workers)
    for step in range(total):
        encoder.train()
        objectives.train()
        dropout = encoder.backbone.dropout(options.model_dropout, options.attention_dropout)
        with drawing(derive_seed(seed, "dropout", 0, step)), dropout:
            batch = feeder.batch(step)
            passes_seed = derive_seed(seed, "passes", 0, step)
            encoding = StepEncoding(encoder, workers, passes_seed, options.chunk_size)
            with autocast(encoder, options):
                views, terms_of, adversary = objectives.ask(batch, encoder.device)
                vectors = encoding.encode(views, adversary)
                terms = terms_of(vectors)
            terms |= objectives.penalties(encoder)
            loss = torch.stack(list(terms.values())).sum()
            # From the loss to the vectors, and to the layers behind them, in every process.
            loss.backward()
            workers.count_once(optimizer.parameters)
            # From the vectors to the encoder's weights, pass by pass.
            with autocast(encoder, options):
                encoding.backward()
            workers.add_gradients(optimizer.parameters)
            norm = nn.utils.clip_grad_norm_(optimizer.parameters, options.max_gradient_norm)
            rate_share = schedule(step, total, warmup, options)
            optimizer.step(rate_share)
        rate = rate_share * options.learning_rate
        yield Update(loss.detach(), terms, rate, norm, same_views=False, step=step + 1)


def tokenized(
    rows: Iterable[Row], method: Method, encoder: Encoder, options: TrainingOptions
) -> TokenStore:
    """The tokens of the rows that a method makes from these rows."""
    (feed,) = method.feeds().values()
    length = min(options.max_length, encoder.max_length)
    return TokenStore.build(
        method.prepare(rows, cache=None, say=lambda line: None),
        feed.rows,
        partial(method.tokenize, encoder, max_length=length),
        length,
        classes=feed.classes,
        keep_text=method.needs_text,
    )

"""The same training by isotune and by sentence-transformers.

isotune trains SimCSE; sentence-transformers trains MultipleNegativesRankingLoss on pairs of equal
sentences, which is the same. Both encode each sentence twice, in batches of 64, cut to 64 tokens.
The loss is InfoNCE at temperature 0.05 (scale 20). The optimiser is AdamW; the learning rate falls
linearly without warm-up, and gradients are clipped at 1. Both keep float32 weights, and use
autocast for bfloat16. With `chunk`, both use the gradient cache, with so many sentences in a pass.
isotune computes where ISOTUNE_DEVICE says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

MAX_LENGTH = 64
RATE = 5e-5

Gate = Callable[[], None]
"""What a training calls before its first step and after each step."""


@dataclass(frozen=True)
class Training:
    """What both trainers are told."""

    model: str
    precision: str
    threads: int
    texts: Sequence[str]

    batch: int
    """The sentences of a step."""

    dropout: float

    pairs: Sequence[Sequence[str]] = ()
    """Sentences whose cosines are asked for after the training."""

    chunk: int | None = None
    """The sentences of a pass of the gradient cache; None without that cache."""

    attention_dropout: float | None = None
    """The dropout of isotune's attention weights, if it is another."""

    device: str = "cpu"
    """Where sentence-transformers computes."""

    attention: str | None = None
    """The attention of sentence-transformers, if it isn't the usual one."""


def isotune(gate: Gate, training: Training) -> dict[str, Any]:
    """Trains one epoch.

    Returns the loss and the row numbers of each step, and the cosine of each pair. Processes that
    train together find their run in $SHARED_FOLDER.
    """
    import torch

    from isotune import train, tune_process
    from isotune.engine.step import Stepper, Update

    tune_process()
    torch.set_num_threads(training.threads)
    update = Stepper.update
    losses: list[torch.Tensor] = []
    order: list[list[int]] = []

    def recorded_update(stepper: Stepper, number: int) -> Update:
        if not number:
            gate()
        made = update(stepper, number)
        # The loss is read at the end: a GPU has the next step by then.
        losses.append(made.loss)
        order.append(stepper.loader.only.sampler[number].tolist())
        gate()
        return made

    Stepper.update = recorded_update
    with TemporaryDirectory() as folder:
        out = Path(os.environ.get("SHARED_FOLDER", folder)) / "run"
        result = train(
            rows=list(training.texts),
            out=out,
            model=training.model,
            method="simcse",
            projection=False,
            pooling="mean",
            batch_size=training.batch,
            max_length=MAX_LENGTH,
            learning_rate=RATE,
            warmup=0.0,
            epochs=1,
            eval_every=10**6,
            model_dropout=training.dropout,
            precision=training.precision,
            dev="none",
            tasks=["stsb-open:test"],
            quiet=True,
            chunk_size=training.chunk,
            attention_dropout=training.attention_dropout,
        )
        return {
            "losses": [loss.item() for loss in losses],
            "order": order,
            "cosines": cosines(result.encoder.encode, training.pairs),
        }


def sentence_transformers(gate: Gate, training: Training) -> dict[str, Any]:
    """Trains one epoch on the rows in the given order; returns the losses and cosines of pairs."""
    import torch
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
    from sentence_transformers.losses import (
        CachedMultipleNegativesRankingLoss,
        MultipleNegativesRankingLoss,
    )
    from transformers import TrainerCallback

    torch.set_num_threads(training.threads)
    rate = training.dropout
    rates = {"hidden_dropout_prob": rate, "attention_probs_dropout_prob": rate}
    kwargs = {"dtype": "float32"}
    if training.attention:
        kwargs["attn_implementation"] = training.attention
    encoder = SentenceTransformer(
        training.model, device=training.device, config_kwargs=rates, model_kwargs=kwargs
    )
    encoder.max_seq_length = MAX_LENGTH
    losses: list[float] = []
    base: Any = MultipleNegativesRankingLoss
    cache = {}
    if training.chunk is not None:
        base = CachedMultipleNegativesRankingLoss
        cache = {"mini_batch_size": training.chunk}

    class Loss(base):  # type: ignore[misc]
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            value = super().forward(*args, **kwargs)
            losses.append(value.item())
            return value

    class Gates(TrainerCallback):
        def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
            gate()

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            gate()

    texts = list(training.texts)
    with TemporaryDirectory() as folder:
        SentenceTransformerTrainer(
            encoder,
            _arguments(folder, training),
            train_dataset=Dataset.from_dict({"anchor": texts, "positive": texts}),
            loss=Loss(encoder, scale=20.0, **cache),
            callbacks=[Gates()],
        ).train()
    return {"losses": losses, "cosines": cosines(encoder.encode, training.pairs)}


def _arguments(folder: str, training: Training) -> Any:
    """The arguments of sentence-transformers' trainer: rows in order, and nothing but steps."""
    from sentence_transformers import SentenceTransformerTrainingArguments
    from torch.utils.data import BatchSampler, SequentialSampler

    def in_order(rows: Any, batch_size: int, drop_last: bool, **_: Any) -> BatchSampler:
        return BatchSampler(SequentialSampler(rows), batch_size, drop_last)

    return SentenceTransformerTrainingArguments(
        output_dir=folder,
        num_train_epochs=1,
        per_device_train_batch_size=training.batch,
        learning_rate=RATE,
        lr_scheduler_type="linear",
        warmup_steps=0,
        weight_decay=0.01,
        adam_epsilon=1e-6,
        max_grad_norm=1.0,
        bf16=training.precision == "bfloat16",
        use_cpu=training.device == "cpu",
        save_strategy="no",
        eval_strategy="no",
        report_to="none",
        logging_strategy="no",
        disable_tqdm=True,
        dataloader_drop_last=True,
        batch_sampler=in_order,
    )


TRAINERS: dict[str, Callable[[Gate, Training], dict[str, Any]]] = {
    "sentence-transformers": sentence_transformers,
    "isotune": isotune,
}


def cosines(encode: Callable[[list[str]], Any], pairs: Sequence[Sequence[str]]) -> list[float]:
    """The cosine similarity of each pair of sentences."""
    import numpy as np

    if not pairs:
        return []
    first = np.asarray(encode([first for first, _ in pairs]))
    second = np.asarray(encode([second for _, second in pairs]))
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    result: list[float] = ((first * second).sum(1) / lengths).tolist()
    return result

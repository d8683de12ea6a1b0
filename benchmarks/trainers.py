"""The same training by isotune and by sentence-transformers.

isotune trains SimCSE; sentence-transformers trains MultipleNegativesRankingLoss on pairs of equal sentences, which is
the same. Both encode each sentence twice, in batches of 64, cut to 64 tokens. The loss is InfoNCE at temperature 0.05
(scale 20). The optimiser is AdamW; the learning rate falls linearly without warm-up, and gradients are clipped at 1.
Both keep float32 weights, and use autocast for bfloat16. With `chunk`, both use the gradient cache, with so many
sentences in a pass. isotune computes where ISOTUNE_DEVICE says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worker import Serving, Timer

MAX_LENGTH = 64
RATE = 5e-5


class Gate:
    """Stops a run between two steps until steps are requested, and replies with the time that these steps took."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._left = 0
        self._timer: Timer | None = None

    def __call__(self) -> None:
        """The run calls this before the first step and after each step."""
        from worker import Timer

        self._left -= 1
        if self._left > 0:
            return
        if self._timer:
            self._serving.say(**self._timer.stop())
        self._left = self._serving.next()["count"]
        self._timer = Timer()


def isotune(
    gate: Callable[[], None],
    model: str,
    precision: str,
    threads: int,
    texts: Sequence[str],
    batch: int,
    dropout: float,
    pairs: Sequence[Sequence[str]] = (),
    chunk: int | None = None,
    attention_dropout: float | None = None,
) -> dict[str, Any]:
    """Trains one epoch; returns the loss and the row numbers of each step, and the cosine of each pair.

    Processes that train together find their run in $SHARED_FOLDER.
    """
    import torch

    from isotune import train, tune_process
    from isotune.engine.step import Stepper, Update

    tune_process()
    torch.set_num_threads(threads)
    update = Stepper.update
    losses: list[torch.Tensor] = []
    order: list[list[int]] = []

    def recorded_update(stepper: Stepper, number: int) -> Update:
        if not number:
            gate()
        made = update(stepper, number)
        losses.append(made.loss)  # read at the end: a GPU has the next step by then
        (corpus,) = stepper.feeder.corpora.values()
        order.append(corpus.order[number].tolist())
        gate()
        return made

    Stepper.update = recorded_update
    with TemporaryDirectory() as folder:
        out = Path(os.environ.get("SHARED_FOLDER", folder)) / "run"
        result = train(
            rows=list(texts), out=out, model=model, method="simcse", projection=False, pooling="mean",
            batch_size=batch, max_length=MAX_LENGTH, learning_rate=RATE, warmup=0.0, epochs=1, eval_every=10**6,
            model_dropout=dropout, precision=precision, dev="none", tasks=["stsb-open:test"], quiet=True,
            chunk_size=chunk, attention_dropout=attention_dropout,
        )  # fmt: skip
        return {
            "losses": [loss.item() for loss in losses],
            "order": order,
            "cosines": cosines(result.encoder.encode, pairs),
        }


def sentence_transformers(
    gate: Callable[[], None],
    model: str,
    precision: str,
    threads: int,
    texts: Sequence[str],
    batch: int,
    dropout: float,
    pairs: Sequence[Sequence[str]] = (),
    chunk: int | None = None,
    device: str = "cpu",
    attention: str | None = None,
) -> dict[str, Any]:
    """Trains one epoch on the rows in the given order; returns the losses and the cosine of each pair."""
    import torch
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.losses import (
        CachedMultipleNegativesRankingLoss,
        MultipleNegativesRankingLoss,
    )
    from torch.utils.data import BatchSampler, SequentialSampler
    from transformers import TrainerCallback

    torch.set_num_threads(threads)
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    kwargs = {"dtype": "float32", **({"attn_implementation": attention} if attention else {})}
    encoder = SentenceTransformer(model, device=device, config_kwargs=rates, model_kwargs=kwargs)
    encoder.max_seq_length = MAX_LENGTH
    losses: list[float] = []

    base = MultipleNegativesRankingLoss if chunk is None else CachedMultipleNegativesRankingLoss
    cache = {} if chunk is None else {"mini_batch_size": chunk}

    class Loss(base):  # type: ignore[misc, valid-type]
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            value = super().forward(*args, **kwargs)
            losses.append(value.item())
            return value

    class Gates(TrainerCallback):
        def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
            gate()

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            gate()

    with TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder, num_train_epochs=1, per_device_train_batch_size=batch, learning_rate=RATE,
            lr_scheduler_type="linear", warmup_steps=0, weight_decay=0.01, adam_epsilon=1e-6, max_grad_norm=1.0,
            bf16=precision == "bfloat16", use_cpu=device == "cpu", save_strategy="no", eval_strategy="no",
            report_to="none", logging_strategy="no", disable_tqdm=True, dataloader_drop_last=True,
            batch_sampler=lambda rows, batch_size, drop_last, **_: BatchSampler(
                SequentialSampler(rows), batch_size, drop_last
            ),
        )  # fmt: skip
        SentenceTransformerTrainer(
            encoder,
            arguments,
            train_dataset=Dataset.from_dict({"anchor": list(texts), "positive": list(texts)}),
            loss=Loss(encoder, scale=20.0, **cache),
            callbacks=[Gates()],
        ).train()
    return {"losses": losses, "cosines": cosines(encoder.encode, pairs)}


TRAINERS: dict[str, Callable[..., dict[str, Any]]] = {
    "sentence-transformers": sentence_transformers,
    "isotune": isotune,
}


def cosines(encode: Callable[[list[str]], Any], pairs: Sequence[Sequence[str]]) -> list[float]:
    """The cosine similarity of each pair of sentences."""
    import numpy as np

    if not pairs:
        return []
    first, second = (np.asarray(encode([pair[side] for pair in pairs])) for side in (0, 1))
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    result: list[float] = ((first * second).sum(1) / lengths).tolist()
    return result

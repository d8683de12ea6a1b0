"""The training loop of one stage.

Step k of a stage is a function of the seed, k and the weights alone: the rows it reads, the model's dropout and the
augmentations all draw from generators seeded with (seed, stage, k). So a run that is killed and resumed goes on as if
nothing had happened, on a CPU bit for bit, and there is no random state to save.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from accelerate import PartialState
from torch import Generator, Tensor, nn

from isotune.data.named import ScoredPairs
from isotune.data.packed import concatenate
from isotune.data.tokens import BatchOrder, TokenStore
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.evaluation.sts import cosine_similarities, score
from isotune.methods.method import Batch, Method, View
from isotune.recipes import TrainingOptions
from isotune.training.checkpoint import Progress, save_checkpoint, save_tensors
from isotune.training.interrupt import StopSignal
from isotune.training.monitor import PROBE_SENTENCES, CollapseMonitor
from isotune.training.recorder import Recorder
from isotune.views.augmentation import PerView

RECORD_EVERY = 10  # steps between two records of the loss


class Loop:
    """Trains an encoder by a method, keeps the best on disk, and can be killed at any moment.

    Attributes:
        progress: how far it is.
        total: updates of the whole stage.
        problem: why it had to stop, if it had to.
    """

    def __init__(
        self,
        encoder: Encoder,
        method: Method,
        store: TokenStore,
        dev: ScoredPairs | None,
        options: TrainingOptions,
        seed: int,
        progress: Progress,
        folder: Path,
        recorder: Recorder,
    ) -> None:
        if len(store) < options.batch_size:
            raise InputError(
                f"batch_size {options.batch_size} is larger than the data ({len(store)} rows); give a batch_size "
                f"(--batch-size) of {len(store)} or less, or more text"
            )
        self.device = PartialState().device
        self.encoder = encoder.to(self.device)
        self.method = method.to(self.device)
        self.store = store
        self.dev = dev
        self.options = options
        self.seed = seed
        self.order = BatchOrder(len(store), options.batch_size, derive_seed(seed, "order", progress.stage))
        self.total = options.total_steps(self.order.steps_per_epoch)
        self.optimizer = _optimizer(nn.ModuleList([encoder, method]), options)
        self.generator = Generator(self.device)
        # A fixed sample, spread over the corpus: its first rows may all be from one place.
        probe = np.linspace(0, len(store) - 1, min(PROBE_SENTENCES, len(store))).astype(np.int64)
        self.monitor = CollapseMonitor(store.pack(probe)[0], progress.start_space)
        self.progress = progress
        self.problem: str | None = None
        self.folder = folder
        self.recorder = recorder

    def run(self, stop: StopSignal) -> None:
        """Trains until the steps or the patience are over, a signal comes, or the loss is not finite."""
        progress, options = self.progress, self.options
        if progress.start_space is None:
            self.evaluate()
        self.recorder.start(f"stage {progress.stage + 1}", progress.step, self.total)
        clock, first = time.perf_counter(), progress.step
        while not (progress.done or stop.received or self.problem):
            values = self.step(progress.step)
            if self.problem:
                break
            progress.step += 1
            progress.done = progress.step == self.total
            self.recorder.advance()
            if progress.step % RECORD_EVERY == 0 or progress.done:
                seconds = time.perf_counter() - clock
                self.recorder.record(
                    "train",
                    step=progress.offset + progress.step,
                    epoch=round(progress.step / self.order.steps_per_epoch, 4),
                    **{key: _floats(value) for key, value in values.items()},
                    sentences_per_second=round((progress.step - first) * options.batch_size / seconds, 1),
                )
                clock, first = time.perf_counter(), progress.step
            if progress.step % options.eval_every == 0 or progress.done:
                self.evaluate()
                clock, first = time.perf_counter(), progress.step
        if self.problem:
            self.recorder.warn(progress.offset + progress.step, self.problem)
        elif not progress.done:
            self.save()
            self.recorder.say(f"stopped after step {progress.step} of {self.total}; --resume goes on from here")

    def step(self, step: int) -> dict[str, float | Tensor | dict[str, Tensor]]:
        """One update; returns what metrics.jsonl says of it. A loss that isn't finite is a `problem`, and no update."""
        options, device, stage = self.options, self.device, self.progress.stage
        torch.manual_seed(derive_seed(self.seed, "dropout", stage, step))
        self.generator.manual_seed(derive_seed(self.seed, "augmentation", stage, step))
        rate = options.learning_rate * _schedule(step, self.total, options)
        for group in self.optimizer.param_groups:
            group["lr"] = rate

        self.encoder.train()
        batch = Batch(tuple(tokens.to(device) for tokens in self.store.pack(self.order[step])))
        half = torch.autocast(device.type, torch.bfloat16, enabled=options.precision == "bfloat16")
        with half, self.encoder.backbone.dropout(options.model_dropout):
            encoded = encode_views(self.encoder, self.method.views(batch), self.generator)
        if step == 0 and len(encoded) > 1 and torch.equal(encoded[0], encoded[1]):
            text = "the two views of a sentence are the same: nothing changes it (the model's dropout is 0)"
            self.recorder.warn(self.progress.offset, text)
        terms = self.method.loss([vectors.float() for vectors in encoded], batch)
        loss = torch.stack(list(terms.values())).sum()
        if not torch.isfinite(loss):
            self.problem = f"the loss is {loss.item()} at step {step + 1}; {self._lower_rate()}"
            return {}
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self._parameters(), options.max_gradient_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return {"loss": loss, "terms": terms, "learning_rate": rate, "gradient_norm": norm}

    def evaluate(self) -> None:
        """Scores the dev pairs, keeps the encoder if it is the best so far, measures the space, writes a checkpoint."""
        progress, options = self.progress, self.options
        step = progress.offset + progress.step
        try:
            space = self.monitor.measure(self.encoder)
            result = None if self.dev is None else score(self.dev, cosine_similarities(self.encoder, self.dev))
        except InputError as error:
            self.problem = f"after step {progress.step}: {error}; {self._lower_rate()}" if progress.step else str(error)
            return
        progress.start_space = self.monitor.start
        self.recorder.record("space", step=step, **space)
        text = f"mean cosine {space['mean_cosine']:.3f}, effective rank {space['effective_rank']:.1f}"
        best = True
        if result is not None:
            value = getattr(result, options.metric).all
            best = progress.best_score is None or value > progress.best_score
            progress.best_score = value if best else progress.best_score
            progress.stale = 0 if best else progress.stale + 1
            progress.done |= options.patience is not None and progress.stale >= options.patience
            self.recorder.record("dev", step=step, metric=options.metric, score=value, best=best)
            text = f"dev {options.metric} {100 * value:.2f}{' (best)' if best else ''}, {text}"
        self.recorder.say(f"step {progress.step} of {self.total}: {text}")
        if warning := self.monitor.warning(space):
            self.recorder.warn(step, warning)
        if best:
            # A later stage starts from the best step of the one before: the same encoder is still from that step.
            progress.best_step = step if progress.step else progress.best_step
            progress.best_file = f"best-{progress.stage}-{progress.step}.safetensors"
            save_tensors(self.folder / progress.best_file, self.encoder.state_dict())
        self.save()

    def save(self) -> None:
        """Writes the checkpoint; only then are the best weights of the one before let go."""
        self.progress.metrics_bytes = self.recorder.metrics_bytes
        file = self.folder / "last.safetensors"
        save_checkpoint(file, self.progress, self.encoder, self.method, self.optimizer)
        for path in self.folder.glob("best-*.safetensors"):
            if path.name != self.progress.best_file:
                path.unlink()

    def _lower_rate(self) -> str:
        return f"training is stopped: use a lower learning_rate than {self.options.learning_rate:g}"

    def _parameters(self) -> list[nn.Parameter]:
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]


def encode_views(encoder: Encoder, views: Sequence[View], generator: Generator) -> list[Tensor]:
    """The vectors of every view, [N, d] each, from one forward pass for all views with the same pooling."""
    encoded: dict[int, Tensor] = {}
    for pooling in dict.fromkeys(view.pooling for view in views):
        members = [i for i, view in enumerate(views) if view.pooling == pooling]
        tokens = [views[i].tokens for i in members]
        sizes = [len(view) for view in tokens]
        augmentation = PerView([views[i].augmentation for i in members], sizes)
        vectors = encoder(concatenate(tokens), augmentation, generator, pooling)
        encoded |= dict(zip(members, vectors.split(sizes), strict=True))
    return [encoded[i] for i in range(len(views))]


def _optimizer(modules: nn.Module, options: TrainingOptions) -> torch.optim.AdamW:
    """AdamW, without weight decay on vectors (biases and normalisation)."""
    parameters = [parameter for parameter in modules.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": options.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=options.learning_rate, betas=options.betas, eps=options.epsilon, fused=True)


def _schedule(step: int, total: int, options: TrainingOptions) -> float:
    """The learning rate of a step, counted from 0, as a share of its peak."""
    warmup = math.ceil(options.warmup * total)
    if step < warmup:
        return (step + 1) / warmup
    left = (total - step) / max(1, total - warmup)  # from 1 to 1 / (total - warmup)
    match options.schedule:
        case "linear":
            return left
        case "cosine":
            return (1 - math.cos(math.pi * left)) / 2
        case "constant":
            return 1.0


def derive_seed(seed: int, purpose: str, *path: int) -> int:
    """A seed of its own for every purpose and path of numbers."""
    tag = int.from_bytes(purpose.encode(), "little")
    return int(np.random.SeedSequence([seed, tag], spawn_key=path).generate_state(1, np.uint64)[0] >> 1)


def _floats(value: float | Tensor | dict[str, Tensor]) -> float | dict[str, float]:
    if isinstance(value, dict):
        return {key: term.item() for key, term in value.items()}
    return value.item() if isinstance(value, Tensor) else value

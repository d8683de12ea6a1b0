"""The training loop of one stage.

Step k of a stage is a function of the seed, k and the weights alone: the rows it reads, the model's dropout and the
augmentations all draw from generators seeded with (seed, stage, k). So a run that is killed and resumed goes on as if
nothing had happened, on a CPU bit for bit, and there is no random state to save.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from accelerate import PartialState
from torch import Generator, Tensor, nn

from isotune.data.datasets import ScoredPairs
from isotune.data.tokens import TokenStore
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.evaluation.metrics import measure
from isotune.evaluation.sts import cosine_similarities, score
from isotune.evaluation.unlabelled import SELECTION_CRITERION
from isotune.kernels.float32 import fast_float32
from isotune.methods.method import Batch, Method
from isotune.recipes import TrainingOptions
from isotune.training.checkpoint import Progress, best_file, save_checkpoint, save_tensors
from isotune.training.encoding import encode_views
from isotune.training.feed import Feeder
from isotune.training.gradient_cache import GradientCache
from isotune.training.interrupt import StopSignal
from isotune.training.monitor import Monitor, Probe
from isotune.training.optimizer import Optimizers, schedule
from isotune.training.recorder import Recorder
from isotune.training.seeds import derive_seed

RECORD_EVERY = 10  # steps between two records of the loss
DEV_ROWS = 64  # labelled rows that are scored together


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
        stores: Mapping[str, TokenStore],
        dev: ScoredPairs | None,
        dev_stores: Mapping[str, TokenStore],
        options: TrainingOptions,
        seed: int,
        progress: Progress,
        folder: Path,
        recorder: Recorder,
        new_heads: int = 0,
        unlabelled: bool = False,
    ) -> None:
        """Takes the method's rows: under "", or where it has feeds under their names; and those it is scored on.

        Without such rows and without `dev` the last step is kept, or if `unlabelled` the best by a criterion.
        The last `new_heads` of the encoder are the method's; before the first step, they don't count.
        """
        self.device = PartialState().device
        self.encoder = encoder.to(self.device)
        self.method = method.to(self.device)
        self.dev = dev
        self.dev_stores = dev_stores
        self.new_heads = new_heads
        self.unlabelled = unlabelled and dev is None and not dev_stores
        self.options = options
        self.seed = seed
        sizes = {name: feed.batch_size for name, feed in method.feeds().items()}
        sizes[""] = 1 if method.closed_form else options.batch_size
        self.rows = sum(sizes[name] for name in stores)  # of a step
        self.feeder = Feeder(stores, sizes, seed, progress.stage)
        self.total = 1 if method.closed_form else options.total_steps(self.feeder.steps_per_epoch)
        encoder.requires_grad_(False)
        for parameter in method.trained(encoder):
            parameter.requires_grad_(True)
        blocks = [p for p in _blocks(encoder).parameters() if p.requires_grad]
        mine = {id(parameter) for parameter in blocks}
        others = [p for p in nn.ModuleList([encoder, method]).parameters() if p.requires_grad and id(p) not in mine]
        self.optimizers = Optimizers(blocks, others, options)
        self.generator = Generator(self.device)
        self.monitor = Monitor(Probe.of(self.feeder.probe), progress.start_space)
        self.progress = progress
        self.problem: str | None = None
        self.folder = folder
        self.recorder = recorder

    @fast_float32()
    def run(self, stop: StopSignal) -> None:
        """Trains until the steps or the patience are over, a signal comes, or the loss is not finite."""
        progress, options = self.progress, self.options
        if progress.start_space is None:
            self.evaluate()
        if self.method.cached and not (progress.done or self.problem):
            # Now and not before: on a resume, the weights of the stages before this one come with the checkpoint.
            self.feeder.cache(self.encoder, self.folder)
        self.recorder.start(f"stage {progress.stage + 1}", progress.step, self.total)
        clock, first = time.perf_counter(), progress.step
        if self.method.closed_form and not (progress.done or self.problem):
            self.method.fit(self.feeder.vectors)
            progress.step, progress.done = 1, True
            self.evaluate()
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
                    stage=progress.stage + 1,
                    step=progress.offset + progress.step,
                    epoch=round(progress.step / self.feeder.steps_per_epoch, 4),
                    **{key: _floats(value) for key, value in values.items()},
                    seconds=round(seconds, 3),
                    sentences_per_second=round((progress.step - first) * self.rows / seconds, 1),
                )
                clock, first = time.perf_counter(), progress.step
            if progress.step % options.eval_every == 0 or progress.done:
                self.evaluate()
                clock, first = time.perf_counter(), progress.step
        if self.problem:
            self.recorder.warn(progress.offset + progress.step, self.problem)
        elif not progress.done:
            if self.dev is None and not self.dev_stores and not self.unlabelled:
                self.evaluate()  # the last encoder is the one that is kept
            else:
                self.save()
            self.recorder.say(f"stopped after step {progress.step} of {self.total}; --resume goes on from here")

    def step(self, step: int) -> dict[str, float | Tensor | dict[str, Tensor]]:
        """One update; returns what metrics.jsonl says of it. A loss that isn't finite is a `problem`, and no update."""
        options, device, stage = self.options, self.device, self.progress.stage
        torch.manual_seed(derive_seed(self.seed, "dropout", stage, step))
        self.generator.manual_seed(derive_seed(self.seed, "augmentation", stage, step))
        self.encoder.train()
        self.method.train()
        batch = self.feeder.batch(step, device)
        cache = GradientCache(options.chunk_size, self.generator) if options.chunk_size else None
        with self._forward():
            adversary = partial(self.method.adversary, batch=batch)
            encoded = encode_views(self.encoder, self.method.views(batch), self.generator, adversary, cache)
            terms = self.method.loss(encoded, batch)
        terms |= self.method.penalty(self.encoder)
        if step == 0 and len(encoded) > 1 and torch.equal(encoded[0], encoded[1]):
            text = "the two views of a sentence are the same: nothing changes it (the model's dropout is 0)"
            self.recorder.warn(self.progress.offset, text)
        loss = torch.stack(list(terms.values())).sum()
        if not torch.isfinite(loss):
            self.problem = f"the loss is {loss.item()} at step {step + 1}; {self._lower_rate()}"
            return {}
        loss.backward()
        if cache:
            with self._forward():
                cache.backward()
        norm = nn.utils.clip_grad_norm_(self.optimizers.parameters, options.max_gradient_norm)
        share = schedule(step, self.total, options)
        self.optimizers.step(share)
        rate = share * options.learning_rate
        return {"loss": loss, "terms": terms, "learning_rate": rate, "gradient_norm": norm}

    @contextmanager
    def _forward(self) -> Iterator[None]:
        """Within it, forward passes are those of training: their precision, and what the model drops."""
        options, backbone = self.options, self.encoder.backbone
        half = torch.autocast(self.device.type, torch.bfloat16, enabled=options.precision == "bfloat16")
        with half, backbone.dropout(options.model_dropout), backbone.drop_heads(options.head_dropout):
            yield

    def evaluate(self) -> None:
        """Scores the encoder, with and without labels, keeps it if it is the best so far, and writes a checkpoint."""
        progress = self.progress
        step = progress.offset + progress.step
        try:
            with self.encoder.heads.without_last(0 if progress.step else self.new_heads):
                space, criteria = self.monitor.measure(self.encoder)
                found = self._score()
        except InputError as error:
            self.problem = f"after step {progress.step}: {error}; {self._lower_rate()}" if progress.step else str(error)
            return
        progress.start_space = self.monitor.start
        self.recorder.record("space", stage=progress.stage + 1, step=step, **space)
        text = f"mean cosine {space['mean_cosine']:.3f}, effective rank {space['effective_rank']:.1f}"
        best, choice = True, dict[str, bool]()
        if self.unlabelled:
            best = self._judge(criteria[SELECTION_CRITERION])
            choice = {"best": best}
            text = f"{SELECTION_CRITERION} {criteria[SELECTION_CRITERION]:.3f}{' (best)' if best else ''}, {text}"
        self.recorder.record("unlabelled", stage=progress.stage + 1, step=step, **criteria, **choice)
        if found is not None:
            value, metric, parts = found
            best = self._judge(value)
            self.recorder.record(
                "dev", stage=progress.stage + 1, step=step, metric=metric, score=value, best=best, **parts
            )
            text = f"dev {metric} {100 * value:.2f}{' (best)' if best else ''}, {text}"
        self.recorder.say(f"step {progress.step} of {self.total}: {text}")
        if warning := self.monitor.warning(space):
            self.recorder.warn(step, warning)
        if best:
            # A later stage starts from the best step of the one before: the same encoder is still from that step.
            progress.best_step = step if progress.step else progress.best_step
            progress.best_file = best_file(progress.stage, progress.step)
            save_tensors(self.folder / progress.best_file, self.encoder.state_dict())
        self.save()

    def _score(self) -> tuple[float, str, dict[str, float]] | None:
        """The dev score, what it is, and its parts where it is a mean; None without dev data."""
        feeds = self.method.dev_feeds()
        if feeds:
            parts: dict[str, float] = {}
            for name, feed in feeds.items():
                found = self._predictions(name)
                parts |= {name or metric: measure(metric, *found) for metric in feed.metrics}
            return fmean(parts.values()), *(("mean", parts) if len(parts) > 1 else (next(iter(parts)), {}))
        if self.dev is None:
            return None
        result = score(self.dev, cosine_similarities(self.encoder, self.dev))
        return getattr(result, self.options.metric).all, self.options.metric, {}

    @torch.no_grad()
    def _predictions(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """What is true of a dev feed's rows, and what the method says of them, [rows] each."""
        self.encoder.eval()
        self.method.eval()
        store, found = self.dev_stores[name], []
        assert store.targets is not None
        for rows in np.array_split(np.arange(len(store)), -(-len(store) // DEV_ROWS)):
            batch = Batch(tuple(tokens.to(self.device) for tokens in store.pack(rows)))
            asked = Batch(tasks={name: batch}) if self.method.feeds() else batch
            found.append(
                self.method.predict(name, encode_views(self.encoder, self.method.views(asked), self.generator))
            )
        return store.targets.numpy(), torch.cat(found).cpu().numpy()

    def _judge(self, value: float) -> bool:
        """Whether this score is a new best; says when patience is over."""
        progress, options = self.progress, self.options
        best = progress.best_score is None or value > progress.best_score
        if options.early_stopping == "previous":
            progress.stale += progress.last_score is not None and value < progress.last_score
        else:
            progress.stale = 0 if best else progress.stale + 1
        progress.best_score = value if best else progress.best_score
        progress.last_score = value
        progress.done |= options.patience is not None and progress.stale >= options.patience
        return best

    def save(self) -> None:
        """Writes the checkpoint; only then are the best weights of the one before let go."""
        self.progress.metrics_bytes = self.recorder.metrics_bytes
        file = self.folder / "last.safetensors"
        save_checkpoint(file, self.progress, self.encoder, self.method, self.optimizers)
        for path in self.folder.glob("best-*.safetensors"):
            if path.name != self.progress.best_file:
                path.unlink()

    def _lower_rate(self) -> str:
        return f"training is stopped: use a lower learning_rate than {self.options.learning_rate:g}"


def _blocks(encoder: Encoder) -> nn.Module:
    """The transformer blocks of the encoder's model."""
    model = encoder.backbone.model
    for name in ("encoder", "transformer", "layers"):
        if hasattr(model, name):
            found: nn.Module = getattr(model, name)
            return found
    raise InputError(f"optimizer muon: the blocks of a {model.config.model_type} model are not known here")


def _floats(value: float | Tensor | dict[str, Tensor]) -> float | dict[str, float]:
    if isinstance(value, dict):
        return {key: term.item() for key, term in value.items()}
    return value.item() if isinstance(value, Tensor) else value

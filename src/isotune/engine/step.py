"""One update: a batch, its views, their vectors, the loss, and the optimiser.

Step k of a stage is a function of (seed, stage, k), the weights and the optimiser's state, whichever workers make its
passes. So there is no random state to save.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from isotune.data.draws import derive_seed
from isotune.encoder.encoder import Encoder
from isotune.engine.feed import Feeder
from isotune.engine.forward import StepEncoding
from isotune.engine.objectives import Objectives
from isotune.engine.optimizer import Optimizer, schedule
from isotune.engine.workers import Workers
from isotune.errors import InputError
from isotune.kernels.gpu import seed_gpu
from isotune.kernels.threads import drawing
from isotune.methods.method import ClosedForm
from isotune.recipes import TrainingOptions

Parts = Mapping[str, nn.Module | Optimizer]
"""What a checkpoint holds, by name."""


class TrainingFailed(InputError):
    """The loss, its gradient or the encoder's vectors are not finite.

    `encoder` is the folder of the encoder kept so far, if any.
    """

    def __init__(self, reason: str, encoder: Path | None = None) -> None:
        super().__init__(reason)
        self.encoder = encoder


class Update(NamedTuple):
    """What an update did."""

    loss: Tensor  # the sum of the terms, a scalar
    terms: dict[str, Tensor]  # the weighted terms of the loss
    learning_rate: float  # of this step
    gradient_norm: Tensor  # the gradient's L2 norm before clipping, a scalar
    same_views: bool  # whether the first two views were identical
    step: int  # its number, counted from 1

    def check(self, options: TrainingOptions) -> None:
        """Raises TrainingFailed if the loss or its gradient is not finite. This waits for the step's end on a GPU."""
        for value, what in (
            (self.loss, "the loss is"),
            (self.gradient_norm, "the gradient's norm is"),
        ):
            if not torch.isfinite(value):
                raise TrainingFailed(
                    f"{what} {value.item()} at step {self.step}; {use_lower_rate(options)}"
                )


class Stepper:
    """Makes the updates of a stage, with the dropout rates that the model has."""

    def __init__(
        self,
        seed: int,  # the run's seed
        stage: int,  # its number, from 0
        workers: Workers,
        scratch: Path,  # the folder for the vectors of a method that is cached
        encoder: Encoder,  # with everything that the objectives add; what is not trained is frozen
        objectives: Objectives,
        feeder: Feeder,
        options: TrainingOptions,
    ) -> None:
        self.encoder, self.objectives, self.feeder = encoder, objectives, feeder
        self.options, self.total = (
            options,
            options.total_steps(feeder.steps_per_epoch),
        )  # updates of the stage
        self._warmup = options.warmup_steps(self.total, feeder.steps_per_epoch)
        self.optimizer = _optimizer(encoder, objectives, options)
        self.parts: Parts = {
            "optimizer": self.optimizer
        }  # what a checkpoint holds, beside encoder and objectives
        self._seed, self._stage = seed, stage
        self._workers, self._scratch = workers, scratch
        words = encoder.backbone.model.get_input_embeddings()
        if isinstance(words, nn.Embedding) and encoder.device.type == "cpu":
            words.sparse = True  # the gradient of a pass has rows for the tokens of the pass, not for the vocabulary

    def open(self) -> None:
        """Makes what all updates share: the vectors of the texts by a frozen backbone, or by teachers."""
        method = self.objectives.method
        if method.cached:
            self.feeder.corpus.cache(self.encoder, self._scratch, self._workers)
        if method.teachers:
            self.feeder.corpus.teach(method.teachers)

    def update(self, step: int) -> Update:
        """Makes update number `step`, counted from 0."""
        with drawing(
            derive_seed(self._seed, "dropout", self._stage, step)
        ):  # of the heads and objectives
            self.encoder.train()
            self.objectives.train()
            batch = self.feeder.batch(step)
            passes_seed = derive_seed(self._seed, "passes", self._stage, step)
            encoding = StepEncoding(
                self.encoder, self._workers, passes_seed, self.options.chunk_size
            )
            with self._autocast():
                views, terms_of, adversary = self.objectives.ask(batch, self.encoder.device)
                encoded = encoding.encode(views, adversary)
                seed_gpu(
                    self.encoder.device, passes_seed
                )  # all processes draw the same after the vectors
                terms = terms_of(encoded)
            terms |= self.objectives.penalties(self.encoder)
            loss = torch.stack(list(terms.values())).sum()
            parameters = self.optimizer.parameters
            loss.backward()
            self._workers.count_once(parameters)
            with self._autocast():
                encoding.backward()
            self._workers.add_gradients(parameters)
            norm = nn.utils.clip_grad_norm_(parameters, self.options.max_gradient_norm)
            rate_share = schedule(step, self.total, self._warmup, self.options)
            same_views = step == 0 and len(encoded) > 1 and torch.equal(encoded[0], encoded[1])
            made = Update(
                loss.detach(),
                terms,
                rate_share * self.options.learning_rate,
                norm,
                same_views,
                step + 1,
            )
            if self.encoder.device.type == "cpu":  # a GPU is asked when it has the next step
                made.check(self.options)
            self.optimizer.step(rate_share)
            return made

    def _autocast(self) -> torch.autocast:
        """Within it, forward passes have the stage's precision."""
        enabled = self.options.precision == "bfloat16"
        return torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=enabled)


class Fit:
    """Makes the only update of a stage with a closed form: the method is fitted to the vectors of all texts."""

    def __init__(
        self, workers: Workers, scratch: Path, encoder: Encoder, method: ClosedForm, feeder: Feeder
    ) -> None:
        """The vectors are kept in a nameless file in the folder `scratch`.

        Raises:
            InputError: there are too few texts.
        """
        method.check(len(feeder.corpus.store))
        self.total = 1
        self.parts: Parts = {}
        self._workers, self._scratch = workers, scratch
        self._encoder, self._method, self._corpus = encoder, method, feeder.corpus

    def open(self) -> None:
        """Nothing has to be ready before the update."""

    def update(self, step: int) -> None:
        """Makes the update."""
        self._method.count(self._encoder, torch.from_numpy(self._corpus.store.token_counts()))
        vectors = self._corpus.cache(self._encoder, self._scratch, self._workers)
        self._method.fit(self._encoder, vectors)


def use_lower_rate(options: TrainingOptions) -> str:
    """What the user can do where training fails."""
    return f"training is stopped: use a lower learning_rate than {options.learning_rate:g}"


def _optimizer(encoder: Encoder, objectives: Objectives, options: TrainingOptions) -> Optimizer:
    """The optimiser of the trained parameters. All other parameters of the encoder are frozen."""
    encoder.requires_grad_(False)
    for parameter in objectives.trained(encoder):
        parameter.requires_grad_(True)
    if lowest := options.frozen_blocks:
        if lowest >= (count := len(encoder.backbone.blocks)):
            raise InputError(
                f"frozen_blocks {lowest}: the model has {count} blocks; give a lower number"
            )
        for parameter in {*encoder.backbone.parameters()} - {
            *encoder.backbone.blocks[lowest:].parameters()
        }:
            parameter.requires_grad_(False)
    # The blocks come first: checkpoints number the parameters, and the order decides the gradient's last digits.
    model = encoder.backbone.model
    blocks = next(
        layer
        for name, layer in model.named_children()
        if name in ("encoder", "transformer", "layers")
    )
    layers = [*blocks.parameters(), *encoder.parameters(), *objectives.parameters()]
    return Optimizer((weight for weight in layers if weight.requires_grad), options)

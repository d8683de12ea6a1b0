"""One update: a batch, its views, their vectors, the loss, and the optimiser.

Step k of a stage is a function of (seed, stage, k), the weights and the optimiser's state, whichever workers make its
passes. So there is no random state to save.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from isotune.data.draws import derive_seed
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.kernels.threads import drawing
from isotune.recipes import TrainingOptions
from isotune.training.feed import Feeder
from isotune.training.forward import StepEncoding
from isotune.training.objectives import Objectives
from isotune.training.optimizer import Optimizer, schedule
from isotune.training.workers import Workers


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


class Stepper:
    """Makes the updates of a stage."""

    def __init__(
        self,
        encoder: Encoder,  # with everything that the objectives add; what is not trained is frozen
        objectives: Objectives,
        feeder: Feeder,
        options: TrainingOptions,
        total: int,  # updates of the stage
        seed: int,
        stage: int,  # the number of the stage, from 0
        workers: Workers,
    ) -> None:
        self.encoder, self.objectives, self.feeder = encoder, objectives, feeder
        self.options, self.total = options, total
        self.optimizer = _optimizer(encoder, objectives, options)
        self._seed, self._stage, self._workers = seed, stage, workers
        words = encoder.backbone.model.get_input_embeddings()
        if isinstance(words, nn.Embedding) and encoder.device.type == "cpu":
            words.sparse = True  # the gradient of a pass has rows for the tokens of the pass, not for the vocabulary

    def update(self, step: int) -> Update:
        """Makes update number `step`, counted from 0."""
        with drawing(derive_seed(self._seed, "dropout", self._stage, step)):  # of the heads and objectives
            return self._update(step)

    def _update(self, step: int) -> Update:
        self.encoder.train()
        self.objectives.train()
        batch = self.feeder.batch(step, self.encoder.device)
        passes_seed = derive_seed(self._seed, "passes", self._stage, step)
        encoding = StepEncoding(self.encoder, self._workers, passes_seed, self.options.chunk_size)
        with self._training_mode():
            requests = self.objectives.ask(batch)
            views = [view for request in requests for view in request.views]
            encoded = encoding.encode(views, self.objectives.adversary(requests))
            terms = self.objectives.terms(requests, encoded)
        terms |= self.objectives.penalties(self.encoder)
        loss = torch.stack(list(terms.values())).sum()
        if not torch.isfinite(loss):
            raise TrainingFailed(f"the loss is {loss.item()} at step {step + 1}; {use_lower_rate(self.options)}")
        parameters = self.optimizer.parameters
        loss.backward()
        self._workers.count_once(parameters)
        with self._training_mode():
            encoding.backward()
        self._workers.add_gradients(parameters)
        norm = nn.utils.clip_grad_norm_(parameters, self.options.max_gradient_norm)
        if not torch.isfinite(norm):
            reason = f"the gradient's norm is {norm.item()} at step {step + 1}"
            raise TrainingFailed(f"{reason}; {use_lower_rate(self.options)}")
        rate_share = schedule(step, self.total, self.options)
        self.optimizer.step(rate_share)
        same_views = step == 0 and len(encoded) > 1 and torch.equal(encoded[0], encoded[1])
        return Update(loss, terms, rate_share * self.options.learning_rate, norm, same_views)

    @contextmanager
    def _training_mode(self) -> Iterator[None]:
        """Within it, forward passes have the stage's precision and dropout rates."""
        options, backbone = self.options, self.encoder.backbone
        autocast = torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=options.precision == "bfloat16")
        dropout = backbone.dropout(options.model_dropout, options.attention_dropout)
        with autocast, dropout, backbone.drop_heads(options.head_dropout):
            yield


def use_lower_rate(options: TrainingOptions) -> str:
    """What the user can do where training fails."""
    return f"training is stopped: use a lower learning_rate than {options.learning_rate:g}"


def _optimizer(encoder: Encoder, objectives: Objectives, options: TrainingOptions) -> Optimizer:
    """The optimiser of the trained parameters. All other parameters of the encoder are frozen."""
    encoder.requires_grad_(False)
    for parameter in objectives.trained(encoder):
        parameter.requires_grad_(True)
    # The blocks come first: checkpoints number the parameters, and the order decides the gradient's last digits.
    model = encoder.backbone.model
    blocks = next(layer for name, layer in model.named_children() if name in ("encoder", "transformer", "layers"))
    layers = [*blocks.parameters(), *encoder.parameters(), *objectives.parameters()]
    return Optimizer((weight for weight in layers if weight.requires_grad), options)

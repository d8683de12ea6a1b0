"""One update: a batch, its views, their vectors, the loss, its gradient, and the optimiser.

`Stepper.update` is the step, and `loop.py` the loop around it. Step k of a stage is a function of
(seed, stage, k), the weights and the optimiser's state, whichever workers make its passes. So there
is no random state to save.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW

from isotune.data.draws import derive_seed
from isotune.encoder.encoder import Encoder
from isotune.engine.forward import StepEncoding
from isotune.engine.loader import StepLoader
from isotune.engine.objectives import Objectives, check_frozen_blocks
from isotune.engine.workers import Workers
from isotune.errors import InputError
from isotune.kernels.threads import seeded
from isotune.methods.method import ClosedForm
from isotune.recipes import TrainingOptions


class TrainingFailed(InputError):
    """The loss, its gradient or the encoder's vectors are not finite.

    `encoder` is the folder of the encoder kept so far, if any.
    """

    def __init__(self, reason: str, encoder: Path | None = None) -> None:
        super().__init__(reason)
        self.encoder = encoder


class Update(NamedTuple):
    """What an update did."""

    loss: Tensor
    """The sum of the terms, a scalar."""

    terms: dict[str, Tensor]
    """The weighted terms of the loss, by name."""

    learning_rate: float
    """The rate of this step."""

    gradient_norm: Tensor
    """The gradient's L2 norm before clipping, a scalar."""

    same_views: bool
    """Whether the first two views were identical; looked at in the first step alone."""

    step: int
    """The number of the update, counted from 1."""

    def check(self, options: TrainingOptions) -> None:
        """Checks that the loss and its gradient are finite; a GPU has to end the step for that.

        Raises:
            TrainingFailed: one of them is not finite.
        """
        self._check_finite(self.loss, "the loss is", options)
        self._check_finite(self.gradient_norm, "the gradient's norm is", options)

    def _check_finite(self, value: Tensor, what: str, options: TrainingOptions) -> None:
        if not torch.isfinite(value):
            raise TrainingFailed(
                f"{what} {value.item()} at step {self.step}; {use_lower_rate(options)}"
            )


class Optimizer:
    """AdamW or SGD. Weight decay leaves out vectors: biases and normalisation.

    AdamW is that of Loshchilov and Hutter (2019), algorithm 2; `bias_correction = false` leaves its
    lines 9 and 10 out.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], options: TrainingOptions) -> None:
        """Takes the parameters to train, of which each counts once."""
        self.parameters = list(dict.fromkeys(parameters))
        matrices = [parameter for parameter in self.parameters if parameter.ndim > 1]
        vectors = [parameter for parameter in self.parameters if parameter.ndim <= 1]
        groups = [
            {"params": matrices, "weight_decay": options.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        self._peak = options.learning_rate
        betas = options.betas
        self._optimizer: SGD | AdamW
        if options.as_released.optimizer == "sgd":
            self._optimizer = SGD(groups, lr=self._peak, momentum=betas[0], fused=True)
        else:
            adamw = AdamW(groups, lr=self._peak, betas=betas, eps=options.epsilon, fused=True)
            if not options.as_released.bias_correction:
                _leave_out_bias_correction(adamw)
            self._optimizer = adamw

    def step(self, factor: float) -> None:
        """Makes an update at `factor` times the peak learning rate, and drops the gradients."""
        for group in self._optimizer.param_groups:
            group["lr"] = factor * self._peak
        self._optimizer.step()
        self._optimizer.zero_grad()

    def state_dict(self) -> dict[str, Tensor]:
        """The state of the optimiser in one level: "0.parameter.name" -> tensor."""
        tensors: dict[str, Tensor] = {}
        for parameter, state in self._optimizer.state_dict()["state"].items():
            for name, value in state.items():
                tensors[f"0.{parameter}.{name}"] = value
        return tensors

    def load_state_dict(self, tensors: dict[str, Tensor]) -> None:
        """Loads what `state_dict` returned."""
        states: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            _, parameter, name = key.split(".")
            states.setdefault(int(parameter), {})[name] = value
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": states, "param_groups": groups})


Parts = Mapping[str, nn.Module | Optimizer]
"""What a checkpoint holds, by name."""


class Stepper:
    """Makes the updates of a stage, with the dropout rates that the model has."""

    def __init__(
        self,
        seed: int,
        stage: int,
        workers: Workers,
        scratch: Path,
        encoder: Encoder,
        objectives: Objectives,
        loader: StepLoader,
        options: TrainingOptions,
    ) -> None:
        """Prepares the weights of the encoder for training: what is not trained is frozen.

        Args:
            seed: the run's seed.
            stage: the number of the stage, from 0.
            workers: who makes the passes of a step.
            scratch: the folder for the vectors of a method that is cached.
            encoder: what is trained, with everything that the objectives add.
            objectives: the method, and what stands beside it.
            loader: makes the batches.
            options: how long, how fast and how carefully to train.
        """
        self.encoder = encoder
        self.objectives = objectives
        self.loader = loader
        self.options = options
        self.total = options.total_steps(loader.steps_per_epoch)
        """The number of updates of the stage."""
        self.optimizer = build_optimizer(encoder, objectives, options)
        self.parts: Parts = {"optimizer": self.optimizer}
        """What a checkpoint holds, beside encoder and objectives."""
        self._warmup = options.warmup_steps(self.total, loader.steps_per_epoch)
        self._seed = seed
        self._stage = stage
        self._workers = workers
        self._scratch = scratch

    def prepare(self) -> None:
        """Makes what all updates share: vectors by a frozen backbone, or by teachers.

        A nameless file on the disk of the folder `scratch` holds the vectors of the backbone.
        """
        method = self.objectives.method
        if method.cached:
            self.loader.only.cache(self.encoder, self._scratch, self._workers)
        if method.teachers:
            self.loader.teach(method.teachers, self.total)

    def update(self, step: int) -> Update:
        """Makes update number `step`, counted from 0.

        Heads and objectives draw from the seed of the step's dropout, and the passes from another:
        so the passes can be cut in any way.
        """
        passes_seed = derive_seed(self._seed, "passes", self._stage, step)
        with seeded(derive_seed(self._seed, "dropout", self._stage, step)):
            self.encoder.train()
            self.objectives.train()
            batch = self.loader.batch(step)
            encoding = StepEncoding(
                self.encoder, self._workers, passes_seed, self.options.chunk_size
            )
            with self._autocast():
                views, terms_of, adversary = self.objectives.views_and_losses(
                    batch, self.encoder.device
                )
                vectors = encoding.encode(views, adversary)
                terms = terms_of(vectors)
            terms |= self.objectives.penalties(self.encoder)
            loss = torch.stack(list(terms.values())).sum()
            self._backpropagate(loss, encoding)
            norm = nn.utils.clip_grad_norm_(
                self.optimizer.parameters, self.options.max_gradient_norm
            )
            factor = schedule(step, self.total, self._warmup, self.options)
            update = Update(
                loss=loss.detach(),
                terms=terms,
                learning_rate=factor * self.options.learning_rate,
                gradient_norm=norm,
                same_views=step == 0 and _first_two_are_equal(vectors),
                step=step + 1,
            )
            # A GPU is asked when it has the next step.
            if self.encoder.device.type == "cpu":
                update.check(self.options)
            self.optimizer.step(factor)
            return update

    def _backpropagate(self, loss: Tensor, encoding: StepEncoding) -> None:
        """Leaves the gradient of the loss at all parameters, the same in every process.

        The loss goes back to the vectors and to the layers behind them in every process; from the
        vectors, each process takes back those of its own passes.
        """
        parameters = self.optimizer.parameters
        loss.backward()
        self._workers.drop_gradients_off_rank_zero(parameters)
        with self._autocast():
            encoding.backward()
        self._workers.all_reduce_gradients(parameters)

    def _autocast(self) -> torch.autocast:
        """A context manager: forward passes inside have the stage's precision."""
        enabled = self.options.precision == "bfloat16"
        return torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=enabled)


class Fit:
    """Makes the only update of a stage with a closed form: fits the method to all vectors."""

    def __init__(
        self,
        workers: Workers,
        scratch: Path,
        encoder: Encoder,
        method: ClosedForm,
        loader: StepLoader,
    ) -> None:
        """The vectors are kept in a nameless file in the folder `scratch`.

        Raises:
            InputError: there are too few texts.
        """
        method.check(len(loader.only.dataset))
        self.total = 1
        self.parts: Parts = {}
        self._workers = workers
        self._scratch = scratch
        self._encoder = encoder
        self._method = method
        self._loader = loader

    def prepare(self) -> None:
        """Nothing has to be ready before the update."""

    def update(self, step: int) -> None:
        """Makes the update."""
        texts = self._loader.only
        self._method.count(self._encoder, torch.from_numpy(texts.dataset.token_counts()))
        if self._method.teachers:
            targets = self._loader.teach(self._method.teachers, len(texts.dataset))
            self._method.teach(targets)
        vectors = texts.cache(self._encoder, self._scratch, self._workers)
        self._method.fit(self._encoder, vectors)


def use_lower_rate(options: TrainingOptions) -> str:
    """What the user can do where training fails."""
    return f"training is stopped: use a lower learning_rate than {options.learning_rate:g}"


def build_optimizer(
    encoder: Encoder, objectives: Objectives, options: TrainingOptions
) -> Optimizer:
    """The optimiser of the trained parameters. All other parameters of the encoder are frozen."""
    freeze_others(encoder, objectives, options)
    words = encoder.backbone.model.get_input_embeddings()
    if isinstance(words, nn.Embedding) and encoder.device.type == "cpu":
        # The gradient of a pass has rows for the tokens of the pass, not for the vocabulary.
        words.sparse = True
    # The blocks come first: checkpoints number the parameters, and the order decides the gradient's
    # last digits. `Optimizer` counts each parameter once.
    ordered = [
        *encoder.backbone.model.get_submodule(encoder.backbone.kind.blocks).parameters(),
        *encoder.parameters(),
        *objectives.parameters(),
    ]
    return Optimizer((parameter for parameter in ordered if parameter.requires_grad), options)


def freeze_others(encoder: Encoder, objectives: Objectives, options: TrainingOptions) -> None:
    """Lets the parameters that are trained have gradients, and no others of the encoder."""
    encoder.requires_grad_(False)
    for parameter in objectives.trained(encoder):
        parameter.requires_grad_(True)
    check_frozen_blocks(options.frozen_blocks, encoder)
    if options.frozen_blocks:
        _freeze_below(options.frozen_blocks, encoder)


def schedule(step: int, total: int, warmup: int, options: TrainingOptions) -> float:
    """The learning rate of a step, counted from 0, as a factor of its peak.

    The rate rises for `warmup` steps, and then falls until the last of the `total` steps.
    """
    if step < warmup:
        return (step + 1) / warmup
    # From 1 to 1 / (total - warmup).
    left = (total - step) / max(1, total - warmup)
    match options.schedule:
        case "linear":
            return left
        case "cosine":
            return (1 - math.cos(math.pi * left)) / 2
        case "constant":
            return 1.0


def _first_two_are_equal(vectors: list[Tensor]) -> bool:
    return len(vectors) > 1 and torch.equal(vectors[0], vectors[1])


def _leave_out_bias_correction(adamw: AdamW) -> None:
    """Starts AdamW at step infinity, which a checkpoint keeps.

    The corrections are then 1, since they are 1 - beta^step.
    """
    for group in adamw.param_groups:
        for parameter in group["params"]:
            adamw.state[parameter] = {
                "step": torch.full((), math.inf, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }


def _freeze_below(lowest: int, encoder: Encoder) -> None:
    """Freezes the embeddings and all blocks below the block with this number."""
    trained = {*encoder.backbone.blocks[lowest:].parameters()}
    for parameter in encoder.backbone.parameters():
        if parameter not in trained:
            parameter.requires_grad_(False)

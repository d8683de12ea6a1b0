"""The optimiser and the schedule of the learning rate."""

import math
from collections.abc import Iterable

import torch
from torch import nn
from torch.optim import SGD, AdamW

from isotune.recipes import TrainingOptions


class Optimizer:
    """AdamW or SGD. Weight decay leaves out vectors: biases and normalisation.

    AdamW is that of Loshchilov and Hutter (2019), algorithm 2; `bias_correction = false` leaves its lines 9 and 10 out.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], options: TrainingOptions) -> None:
        self.parameters = list(dict.fromkeys(parameters))  # each once
        groups = [
            {
                "params": [p for p in self.parameters if p.ndim > 1],
                "weight_decay": options.weight_decay,
            },
            {"params": [p for p in self.parameters if p.ndim <= 1], "weight_decay": 0.0},
        ]
        self._peak, betas = options.learning_rate, options.betas
        self._optimizer: SGD | AdamW
        if options.as_released.optimizer == "sgd":
            self._optimizer = SGD(groups, lr=self._peak, momentum=betas[0], fused=True)
        else:
            self._optimizer = adamw = AdamW(
                groups, lr=self._peak, betas=betas, eps=options.epsilon, fused=True
            )
            if not options.as_released.bias_correction:
                _leave_out_bias_correction(adamw)

    def step(self, share: float) -> None:
        """Makes an update at this share of the peak learning rate, and drops the gradients."""
        for group in self._optimizer.param_groups:
            group["lr"] = share * self._peak
        self._optimizer.step()
        self._optimizer.zero_grad()

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The state of the optimiser in one level: "0.parameter.name" -> tensor."""
        return {
            f"0.{parameter}.{name}": value
            for parameter, state in self._optimizer.state_dict()["state"].items()
            for name, value in state.items()
        }

    def load_state_dict(self, tensors: dict[str, torch.Tensor]) -> None:
        """Loads what `state_dict` returned."""
        states: dict[int, dict[str, torch.Tensor]] = {}
        for key, value in tensors.items():
            _, parameter, name = key.split(".")
            states.setdefault(int(parameter), {})[name] = value
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": states, "param_groups": groups})


def _leave_out_bias_correction(adamw: AdamW) -> None:
    """Starts AdamW at step infinity, which a checkpoint keeps: the corrections, 1 - beta^step, are then 1."""
    for group in adamw.param_groups:
        for parameter in group["params"]:
            adamw.state[parameter] = {
                "step": torch.full((), math.inf, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }


def schedule(step: int, total: int, warmup: int, options: TrainingOptions) -> float:
    """The learning rate of a step, counted from 0, as a share of its peak; it rises for `warmup` steps."""
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

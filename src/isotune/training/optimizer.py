"""Optimisers and the schedule of the learning rate."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, AdamW, Muon, Optimizer

from isotune.recipes import TrainingOptions


class Optimizers:
    """The optimisers of a stage as one: each parameter belongs to one of them.

    AdamW and SGD take all; Muon takes the matrices of the transformer blocks, which it was made for, and leaves the
    rest (embeddings, vectors, heads) to AdamW. Weight decay leaves out vectors: biases and normalisation. AdamW is that
    of Loshchilov and Hutter (2019), algorithm 2; `bias_correction = false` leaves its lines 9 and 10 out.
    """

    def __init__(
        self, blocks: Iterable[nn.Parameter], everything: Iterable[nn.Parameter], options: TrainingOptions
    ) -> None:
        blocks, decay = list(blocks), options.weight_decay
        matrices = [p for p in blocks if p.ndim == 2] if options.optimizer == "muon" else []
        self.parameters = list(dict.fromkeys([*matrices, *blocks, *everything]))  # each once
        rest = self.parameters[len(matrices) :]
        self._optimizers: list[Optimizer] = []
        if matrices:
            self._optimizers.append(Muon(matrices, lr=options.muon_learning_rate, weight_decay=decay, momentum=0.95))
        groups = [
            {"params": [p for p in rest if p.ndim > 1], "weight_decay": decay},
            {"params": [p for p in rest if p.ndim <= 1], "weight_decay": 0.0},
        ]
        rate, betas = options.learning_rate, options.betas
        if options.optimizer == "sgd":
            self._optimizers.append(SGD(groups, lr=rate, momentum=betas[0], fused=True))
        else:
            adamw = AdamW(groups, lr=rate, betas=betas, eps=options.epsilon, fused=True)
            if not options.bias_correction:
                _leave_out_bias_correction(adamw)
            self._optimizers.append(adamw)
        self._peaks = [group["lr"] for group in self._groups]

    @property
    def _groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self._optimizers for group in optimizer.param_groups]

    def step(self, share: float) -> None:
        """Makes an update at this share of the peak learning rate, and drops the gradients."""
        for group, peak in zip(self._groups, self._peaks, strict=True):
            group["lr"] = share * peak
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.zero_grad()

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The state of all optimisers in one level: "optimiser.parameter.name" -> tensor."""
        return {
            f"{number}.{parameter}.{name}": value
            for number, optimizer in enumerate(self._optimizers)
            for parameter, state in optimizer.state_dict()["state"].items()
            for name, value in state.items()
        }

    def load_state_dict(self, tensors: dict[str, torch.Tensor]) -> None:
        """Loads what `state_dict` returned."""
        states: list[dict[int, dict[str, torch.Tensor]]] = [{} for _ in self._optimizers]
        for key, value in tensors.items():
            number, parameter, name = key.split(".")
            states[int(number)].setdefault(int(parameter), {})[name] = value
        for optimizer, state in zip(self._optimizers, states, strict=True):
            optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _leave_out_bias_correction(adamw: AdamW) -> None:
    """Starts AdamW at step infinity: the corrections, 1 - beta^step, are then exactly 1 in every step.

    The step is a part of the optimiser's state, so a checkpoint keeps it, and torch's fused kernel does the update.
    """
    for group in adamw.param_groups:
        for parameter in group["params"]:
            adamw.state[parameter] = {
                "step": torch.tensor(math.inf, dtype=torch.float32, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }


def schedule(step: int, total: int, options: TrainingOptions) -> float:
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
        case "wsd":
            return min(1.0, (total - step) / max(1.0, options.cooldown * total))
        case "constant":
            return 1.0

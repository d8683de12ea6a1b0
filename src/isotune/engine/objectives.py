"""The objectives of a stage. Their views are encoded together, and their loss terms are added.

The first objective is the stage's method. Masked language modelling can stand beside it as a second one.
"""

from collections.abc import Callable, Sequence
from itertools import chain

import torch
from torch import Tensor, nn

from isotune.encoder.encoder import Encoder
from isotune.engine.forward import Adversary
from isotune.errors import InputError
from isotune.kernels.threads import drawing
from isotune.methods import METHODS
from isotune.methods.method import Batch, Method, VectorView, View
from isotune.methods.mlm import MLM
from isotune.methods.options import MLMOptions
from isotune.recipes import Stage
from isotune.views.adversarial import Adversarial


class Objectives(nn.Module):
    """The objectives of a stage: its method, and those beside the method."""

    def __init__(self, method: Method, others: Sequence[Method] = ()) -> None:
        super().__init__()
        self.method = method
        self.others = nn.ModuleList(others)
        self._all = (method, *others)

    def attach(self, encoder: Encoder) -> None:
        """Adds to the encoder what the objectives declare, and drops a language head that none of them trains."""
        encoder.language_head = None
        for objective in self._all:
            objective.adds.attach(encoder)

    def trained(self, encoder: Encoder) -> list[nn.Parameter]:
        """The encoder's parameters that are trained, after `attach`."""
        added = [parameter for objective in self._all for parameter in objective.adds.parameters()]
        return [*self.method.trained(encoder), *added]

    def ask(
        self, batch: Batch, device: torch.device
    ) -> tuple[
        Sequence[View | VectorView], Callable[[Sequence[Tensor]], dict[str, Tensor]], Adversary
    ]:
        """Three things on this device: the views of all objectives, the function of their losses, and the adversary.

        The function makes the weighted loss terms by name of the vectors of all views. The adversary has the loss that
        adversarial views increase, of the vectors of all other views.
        """
        drawn = [objective.draw(batch).to(device) for objective in self._all]  # drawn on the CPU
        views = [
            objective.views(of_objective)
            for objective, of_objective in zip(self._all, drawn, strict=True)
        ]
        plain = sum(
            not (isinstance(view, View) and isinstance(view.augmentation, Adversarial))
            for view in views[0]
        )

        def terms(encoded: Sequence[Tensor]) -> dict[str, Tensor]:
            result: dict[str, Tensor] = {}
            for objective, of_objective, of_views in zip(self._all, drawn, views, strict=True):
                named = objective.loss(encoded[: len(of_views)], of_objective)
                if same := result.keys() & named.keys():
                    raise ValueError(
                        f"two objectives name a loss term {min(same)!r}; the names have to differ"
                    )
                result |= named
                encoded = encoded[len(of_views) :]
            return result

        def adversary(encoded: Sequence[Tensor]) -> Tensor:
            return self.method.adversary(encoded[:plain], drawn[0])

        return list(chain.from_iterable(views)), terms, adversary

    def penalties(self, encoder: Encoder) -> dict[str, Tensor]:
        """The weighted terms that depend on the weights alone, by name."""
        return {
            name: term
            for objective in self._all
            for name, term in objective.penalty(encoder).items()
        }


def build_objectives(stage: Stage, encoder: Encoder, seed: int = 0) -> Objectives:
    """Makes a stage's objectives, with new layers from a seed. The encoder is not changed; see `Objectives.attach`."""
    training = stage.training
    encoder.backbone.check_attention_dropout(training.attention_dropout)
    with drawing(seed):
        method = METHODS[stage.method](stage.options, encoder)
        if not training.mlm_weight:
            return Objectives(method)
        if method.cached or method.adds.language_head or len(method.feeds()) > 1:
            raise InputError(
                f"mlm_weight {training.mlm_weight:g}: method {stage.method} can't have masked language modelling "
                "beside it; leave mlm_weight at 0"
            )
        return Objectives(method, [MLM(MLMOptions(), encoder, training.mlm_weight)])

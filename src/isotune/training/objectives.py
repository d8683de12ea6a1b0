"""The objectives of a stage. Their views are encoded together, and their loss terms are added.

The first objective is the stage's method. Masked language modelling can stand beside it as a second one.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor, nn

from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.kernels.threads import drawing
from isotune.methods import method_class
from isotune.methods.method import Batch, Method, View
from isotune.methods.mlm import MLM
from isotune.methods.options import MLMOptions
from isotune.methods.protocols import SeveralFeeds
from isotune.recipes import Stage
from isotune.views.adversarial import Adversarial


class Request(NamedTuple):
    """What an objective wants encoded in a step."""

    objective: Method
    batch: Batch  # with the random numbers that the objective has drawn
    views: Sequence[View]  # the views to encode


class Objectives(nn.Module):
    """The objectives of a stage: its method, and those beside the method."""

    def __init__(self, method: Method, others: Sequence[Method] = ()) -> None:
        super().__init__()
        self.method = method
        self.others = nn.ModuleList(others)

    def attach(self, encoder: Encoder) -> None:
        """Adds to the encoder what the objectives declare, and drops a language head that none of them trains."""
        encoder.language_head = None
        for objective in self._all():
            objective.adds.attach(encoder)

    def trained(self, encoder: Encoder) -> list[nn.Parameter]:
        """The encoder's parameters that are trained, after `attach`."""
        added = [parameter for objective in self._all() for parameter in objective.adds.parameters()]
        return [*self.method.trained(encoder), *added]

    def ask(self, batch: Batch) -> list[Request]:
        """What each objective wants encoded."""
        requests = []
        for objective in self._all():
            drawn = objective.draw(batch)
            requests.append(Request(objective, drawn, objective.views(drawn)))
        return requests

    def adversary(self, requests: Sequence[Request]) -> Callable[[Sequence[Tensor]], Tensor]:
        """The loss that adversarial views increase, from the vectors of all other views."""
        method, batch, views = requests[0]
        plain = sum(not isinstance(view.augmentation, Adversarial) for view in views)
        return lambda encoded: method.adversary(encoded[:plain], batch)

    def terms(self, requests: Sequence[Request], encoded: Sequence[Tensor]) -> dict[str, Tensor]:
        """The weighted loss terms of all objectives, by name, from the vectors [N, d] of all requests' views."""
        terms: dict[str, Tensor] = {}
        for objective, batch, views in requests:
            of_objective = objective.loss(encoded[: len(views)], batch)
            if same := terms.keys() & of_objective.keys():
                raise ValueError(f"two objectives name a loss term {min(same)!r}; the names have to differ")
            terms |= of_objective
            encoded = encoded[len(views) :]
        return terms

    def penalties(self, encoder: Encoder) -> dict[str, Tensor]:
        """The weighted terms that depend on the weights alone, by name."""
        return {name: term for objective in self._all() for name, term in objective.penalty(encoder).items()}

    def _all(self) -> list[Method]:
        return [self.method, *(objective for objective in self.others if isinstance(objective, Method))]


def build_objectives(stage: Stage, encoder: Encoder, seed: int = 0) -> Objectives:
    """Makes a stage's objectives, with new layers from a seed. The encoder is not changed; see `Objectives.attach`."""
    training = stage.training
    encoder.backbone.check_attention_dropout(training.head_dropout, training.attention_dropout)
    with drawing(seed):
        method = method_class(stage.method)(stage.options, encoder)
        if not training.mlm_weight:
            return Objectives(method)
        if method.cached or isinstance(method, MLM | SeveralFeeds):
            raise InputError(
                f"mlm_weight {training.mlm_weight:g}: method {stage.method} can't have masked language modelling "
                "beside it; leave mlm_weight at 0"
            )
        return Objectives(method, [MLM(MLMOptions(masking_rate=training.mlm_rate), encoder, training.mlm_weight)])

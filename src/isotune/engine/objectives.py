"""The objectives of a stage. Their views are encoded together, and their loss terms are added.

The first objective is the stage's method. Masked language modelling can stand beside the method.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from isotune.encoder.encoder import Encoder
from isotune.engine.forward import Adversary
from isotune.errors import InputError
from isotune.kernels.threads import seeded
from isotune.losses import at_widths
from isotune.methods import METHODS
from isotune.methods.method import Batch, Method, VectorView, View
from isotune.methods.mlm import MLM
from isotune.methods.options import MLMOptions
from isotune.recipes import Stage

Terms = Callable[[Sequence[Tensor]], dict[str, Tensor]]
"""Makes the weighted loss terms, by name, from the vectors of all views."""


class Objectives(nn.Module):
    """The objectives of a stage: its method, and those beside the method."""

    def __init__(
        self, method: Method, others: Sequence[Method] = (), widths: Sequence[int] = ()
    ) -> None:
        """Takes the method of the stage, and the objectives beside it.

        Where there are `widths`, the method's loss is that of so many first features, added up.
        """
        super().__init__()
        self.method = method
        self.widths = widths
        self.others = nn.ModuleList(others)
        self._all = (method, *others)

    def attach(self, encoder: Encoder) -> None:
        """Adds to the encoder what the objectives declare.

        The encoder loses a language head that none of them trains.
        """
        encoder.language_head = None
        for objective in self._all:
            objective.adds.attach(encoder)

    def trained(self, encoder: Encoder) -> list[nn.Parameter]:
        """The encoder's parameters that are trained, after `attach`."""
        parameters = list(self.method.trained(encoder))
        for objective in self._all:
            parameters.extend(objective.adds.parameters())
        return parameters

    def views_and_losses(
        self, batch: Batch, device: torch.device
    ) -> tuple[Sequence[View | VectorView], Terms, Adversary]:
        """Three things on this device: the views of all objectives, their terms, and the adversary.

        The adversary is the loss that adversarial views increase, from the vectors of all other
        views of the method.
        """
        # Random numbers are drawn on the CPU.
        batches = [objective.draw(batch).to(device) for objective in self._all]
        views: list[View | VectorView] = []
        counts: list[int] = []
        for objective, own_batch in zip(self._all, batches, strict=True):
            own_views = objective.views(own_batch)
            counts.append(len(own_views))
            views.extend(own_views)

        def terms(vectors: Sequence[Tensor]) -> dict[str, Tensor]:
            joined: dict[str, Tensor] = {}
            start = 0
            for objective, own_batch, count in zip(self._all, batches, counts, strict=True):
                own_terms = self._terms(objective, vectors[start : start + count], own_batch)
                _refuse_same_names(joined, own_terms)
                joined |= own_terms
                start += count
            return joined

        def adversary(vectors: Sequence[Tensor]) -> Tensor:
            plain = counts[0] - sum(map(_is_adversarial, views[: counts[0]]))
            return self.method.adversary(vectors[:plain], batches[0])

        return views, terms, adversary

    def _terms(
        self, objective: Method, vectors: Sequence[Tensor], batch: Batch
    ) -> dict[str, Tensor]:
        """The terms of an objective; of the method at each width, if there are widths."""
        if objective is not self.method or not self.widths:
            return objective.loss(vectors, batch)

        def loss(cut: Sequence[Tensor]) -> dict[str, Tensor]:
            return objective.loss(cut, batch)

        return at_widths(loss, vectors, self.widths)

    def penalties(self, encoder: Encoder) -> dict[str, Tensor]:
        """The weighted terms that depend on the weights alone, by name."""
        terms: dict[str, Tensor] = {}
        for objective in self._all:
            terms |= objective.penalty(encoder)
        return terms


def build_objectives(stage: Stage, encoder: Encoder, seed: int = 0) -> Objectives:
    """Makes a stage's objectives, with new layers from a seed.

    The encoder is not changed; see `Objectives.attach`.

    Raises:
        InputError: the stage's options don't fit the model or each other.
    """
    training = stage.training
    encoder.backbone.check_attention_dropout(training.attention_dropout)
    check_frozen_blocks(training.frozen_blocks, encoder)
    with seeded(seed):
        method = METHODS[stage.method](stage.options, encoder)
        widths = training.matryoshka or ()
        _check_widths(widths, stage.method, method, encoder)
        if not training.mlm_weight:
            return Objectives(method, widths=widths)
        if method.cached or method.adds.language_head or len(method.feeds()) > 1:
            raise InputError(
                f"mlm_weight {training.mlm_weight:g}: method {stage.method} can't have masked "
                "language modelling beside it; leave mlm_weight at 0"
            )
        beside = MLM(MLMOptions(), encoder, training.mlm_weight)
        return Objectives(method, [beside], widths)


def check_frozen_blocks(number: int, encoder: Encoder) -> None:
    """Refuses to freeze all blocks of the encoder's model, or more."""
    blocks = len(encoder.backbone.blocks)
    if number and number >= blocks:
        raise InputError(
            f"frozen_blocks {number}: the model has {blocks} blocks; give a lower number"
        )


def _check_widths(widths: Sequence[int], name: str, method: Method, encoder: Encoder) -> None:
    """Refuses widths of a loss that has none, or that the vectors don't have."""
    if not widths:
        return
    if not method.has_widths:
        raise InputError(
            f"matryoshka: the loss of method {name} is not one of sentence vectors; leave "
            "matryoshka out"
        )
    dimension = method.adds.dimension(encoder)
    if widths[0] > dimension:
        raise InputError(
            f"matryoshka {widths[0]}: the vectors have {dimension} features; give that many or "
            "fewer"
        )


def _is_adversarial(view: View | VectorView) -> bool:
    return isinstance(view, View) and view.is_adversarial


def _refuse_same_names(terms: dict[str, Tensor], more: dict[str, Tensor]) -> None:
    same = terms.keys() & more.keys()
    if same:
        raise ValueError(f"two objectives name a loss term {min(same)!r}; the names have to differ")

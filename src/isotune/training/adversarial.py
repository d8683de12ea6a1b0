"""The adversarial pass of a step (ConSERT, section 3.2): plain views first, then views with adversarial noise.

1. The plain views are encoded. Those under attack remember their embeddings.
2. A loss of the plain views' vectors is computed, and its gradient at the vectors.
3. For each adversarial view, that gradient goes back to the embeddings of the view under attack. Scaled to one length
   for each token, it is the noise of the adversarial view, which is then encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from isotune.methods.method import View
from isotune.training.encoding import Passes
from isotune.training.gradient_cache import Pass
from isotune.views.adversarial import Adversarial, Noise, Watched, fast_gradient_values


def encode_with_adversary(
    passes: Passes, views: Sequence[View], adversary: Callable[[Sequence[Tensor]], Tensor]
) -> list[Tensor]:
    """The vectors [N, d] of all views, some of which are adversarial.

    Args:
        passes: makes the forward passes.
        views: the views. An adversarial view names the view under attack by its number.
        adversary: the loss that adversarial views increase, from the vectors of all other views.
    """
    attacks = {view: view.augmentation for view in views if isinstance(view.augmentation, Adversarial)}
    under_attack = {attack.of for attack in attacks.values()}
    plain = {number: view for number, view in enumerate(views) if view not in attacks}
    for number in under_attack:
        plain[number] = replace(plain[number], augmentation=Watched(plain[number].augmentation))
    encoded = dict(zip(plain, passes.encode(list(plain.values())), strict=True))
    targets = {view: plain[attack.of] for view, attack in attacks.items()}
    noise = _Noise(passes, targets, adversary(list(encoded.values())))
    of_attacks = dict(zip(attacks, passes.encode(list(attacks), noise), strict=True))
    return [encoded[number] if number in encoded else of_attacks[view] for number, view in enumerate(views)]


class _Noise:
    """The noise of adversarial views: the direction in which a loss of the plain views grows fastest."""

    def __init__(self, passes: Passes, targets: Mapping[View, View], loss: Tensor) -> None:
        """Computes the loss's gradient at the outputs of the passes that encoded the views under attack.

        Args:
            passes: have encoded the plain views.
            targets: the view under attack of each adversarial view. Its augmentation is a `Watched`.
            loss: the loss of the plain views, a scalar with its graph.
        """
        self._passes = passes
        self._targets = targets
        watched_views = set(targets.values())
        # One pass may have encoded several of the views under attack.
        sources = list(dict.fromkeys(made for (view, _), made in passes.made.items() if view in watched_views))
        gradients = torch.autograd.grad(loss, [source.output for source in sources], retain_graph=True)
        self._gradients = dict(zip(sources, gradients, strict=True))

    def __call__(self, chunk: int, views: Sequence[View]) -> list[Noise]:
        """The noise of each of these adversarial views, for the sentences of a chunk."""
        by_source: dict[Pass, list[View]] = {}
        for view in views:
            by_source.setdefault(self._passes.made[self._targets[view], chunk], []).append(view)
        noises: dict[View, Noise] = {}
        for source, attackers in by_source.items():
            with torch.enable_grad():
                # The gradient of this product at the embeddings is the gradient of the loss.
                product = (source.again() * self._gradients[source]).sum()
            watched, norms = zip(*(self._watched(view) for view in attackers), strict=True)
            noises |= zip(attackers, fast_gradient_values(product, watched, norms), strict=True)
        return [noises[view] for view in views]

    def _watched(self, view: View) -> tuple[Watched, float]:
        """The embeddings under attack, and the length of each token's noise."""
        watched, attack = self._targets[view].augmentation, view.augmentation
        assert isinstance(watched, Watched)
        assert isinstance(attack, Adversarial)
        return watched, attack.norm

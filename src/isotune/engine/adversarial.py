"""The two rounds of a step that has adversarial views (ConSERT, section 3.2).

1. The plain views are encoded, those under attack with a noise of 0 on their embeddings.
2. A loss of the plain views' vectors is computed, and its gradient goes back to that noise, as to
   weights.
3. Scaled to one length for each token, the gradient is the noise of the adversarial view, which is
   then encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor
from torch.nn.functional import normalize

from isotune.encoder.encoder import Encoder
from isotune.methods.method import View
from isotune.views.adversarial import Adversarial, Noise


@dataclass(frozen=True)
class Attack:
    """The adversarial views of a step, and the views that they attack."""

    views: Sequence[View]
    """All views of the step. An adversarial view names the number of its target here."""

    noises: dict[View, Tensor]
    """The noise [T, d] at the embeddings of each target: 0, until its gradient is known."""

    @classmethod
    def on(cls, views: Sequence[View], encoder: Encoder) -> Attack:
        """The attack of the adversarial views among these views."""
        noises: dict[View, Tensor] = {}
        for view in views:
            if isinstance(view.augmentation, Adversarial):
                target = views[view.augmentation.of]
                if target not in noises:
                    noise = encoder.backbone.no_noise(len(target.tokens.ids))
                    noises[target] = noise.requires_grad_()
        return cls(views, noises)

    def plain_round(self) -> list[View]:
        """The views that are not adversarial, in order; the targets have their noise."""
        plain = []
        for view in self.views:
            if view in self.noises:
                noise = Noise(view.tokens, self.noises[view], view.augmentation)
                plain.append(replace(view, augmentation=noise))
            elif not view.is_adversarial:
                plain.append(view)
        return plain

    def noisy_round(self, gradients: Sequence[Tensor]) -> list[View]:
        """The adversarial views, in order, from the gradient [T, d] at each of the noises."""
        directions: dict[View, Tensor] = {}
        for target, gradient in zip(self.noises, gradients, strict=True):
            # The direction of each token's embedding in which the loss grows fastest, of length 1.
            directions[target] = normalize(gradient, dim=-1, eps=1e-10)
        noisy = []
        for view in self.views:
            if isinstance(view.augmentation, Adversarial):
                target = self.views[view.augmentation.of]
                noise = view.augmentation.norm * directions[target]
                noisy.append(replace(view, augmentation=Noise(target.tokens, noise)))
        return noisy

"""Views: how one sentence becomes several, by random changes that keep its meaning.

This module needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from isotune.registry import Registry

if TYPE_CHECKING:
    from isotune.views.augmentation import Augmentation

AUGMENTATIONS: Registry[type[Augmentation]] = Registry(
    "augmentation",
    {
        "none": "views.augmentation:Augmentation",
        "shuffle": "views.augmentation:Shuffle",
        "token_cutoff": "views.augmentation:TokenCutoff",
        "feature_cutoff": "views.augmentation:FeatureCutoff",
        "dropout": "views.augmentation:EmbeddingDropout",
        "adversarial": "views.adversarial:Adversarial",
    },
)
"""The classes of the augmentations by name."""

"""Options of ConSERT, without labels and with them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from isotune.methods.options.base import MethodOptions, Rate, Temperature

AugmentationName = Literal["none", "shuffle", "token_cutoff", "feature_cutoff", "dropout"]
JointAugmentationName = Literal[AugmentationName, "adversarial"]


class AugmentationOptions(MethodOptions):
    """How much the augmentations change."""

    temperature: Temperature = 0.1
    """Divides the cosine similarities. ConSERT, section 5.4."""

    token_cutoff_rate: Rate = 0.15
    """Share of a sentence's tokens that token_cutoff sets to 0. ConSERT, section 4.1."""

    feature_cutoff_rate: Rate = 0.2
    """Share of the features that feature_cutoff sets to 0. ConSERT, section 4.1."""

    dropout_rate: Rate = 0.2
    """Share of a sentence's elements that dropout sets to 0. ConSERT, section 4.1."""


class ConSERTOptions(AugmentationOptions):
    """ConSERT without labels: two views by augmentations in the embedding layer, compared by NT-Xent."""

    augmentations: tuple[AugmentationName, AugmentationName] = ("feature_cutoff", "shuffle")
    """How each of the two views is made: none, shuffle, token_cutoff, feature_cutoff or dropout. The best pair of
    ConSERT's Figure 5."""


class ConSERTJointOptions(AugmentationOptions):
    """ConSERT with labels: pairs classified from their two vectors, and each side's views compared by NT-Xent."""

    augmentations: tuple[JointAugmentationName, JointAugmentationName] = ("none", "token_cutoff")
    """How each of a sentence's two views is made: none, shuffle, token_cutoff, feature_cutoff, dropout or adversarial.
    None first is the view that is classified, as in the authors' script for this setting; the text names no pair."""

    alpha: Annotated[float, Field(ge=0)] = 0.15
    """Weight of the contrastive loss. ConSERT, section 4.1. The authors' NT-Xent is twice the text's, so 0.3 is what
    their 0.15 did."""

    adversarial_norm: Annotated[float, Field(gt=0)] = 1.0
    """Length of the noise that adversarial adds to each token. The authors' code; the text names none."""

    max_square: bool = False
    """Classify from max(u, v)^2 too, beside u, v and |u - v| (ConSERT, equation 2). The published numbers did."""

"""Options of ConSERT, without labels and with them."""

from __future__ import annotations

from typing import Literal

from isotune.methods.options.base import MethodOptions, NotNegative, Positive, Rate

AugmentationName = Literal["none", "shuffle", "token_cutoff", "feature_cutoff", "dropout"]
JointAugmentationName = Literal[AugmentationName, "adversarial"]


class AugmentationOptions(MethodOptions):
    """How much the augmentations change."""

    temperature: Positive = 0.1
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
    """The augmentations of the two views: none, shuffle, token_cutoff, feature_cutoff or dropout. The default is the
    best pair of ConSERT's Figure 5."""

    least_told_apart: Rate = 0.0
    """Without dev pairs, keep the start if it finds the second view of a sentence among those of 256 sentences for a
    smaller share than this. Such sentences differ by few words, and training on the views has an encoder overlook
    these. 0, as in the paper, always trains."""


class ConSERTJointOptions(AugmentationOptions):
    """ConSERT with labels: pairs are classified from their two vectors, and the views of each side are compared."""

    augmentations: tuple[JointAugmentationName, JointAugmentationName] = ("none", "token_cutoff")
    """The augmentations of a sentence's two views: none, shuffle, token_cutoff, feature_cutoff, dropout or adversarial.
    The first view is the one that is classified. The default is that of the authors' script; the text names no pair."""

    alpha: NotNegative = 0.15
    """Weight of the contrastive loss. ConSERT, section 4.1. NT-Xent in the authors' code is twice that of the text, so
    their 0.15 is 0.3 here."""

    adversarial_norm: Positive = 1.0
    """Length of the noise that adversarial adds to each token. The authors' code; the text names none."""

    max_square: bool = False
    """Classify from max(u, v)^2 too, besides u, v and |u - v| (ConSERT, equation 2). The published numbers did."""

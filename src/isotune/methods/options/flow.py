"""Options of BERT-flow, and of BERT-CF's second stage."""

from __future__ import annotations

from typing import Literal

from isotune.methods.options.base import Count, MethodOptions, Positive
from isotune.methods.options.mirror import MirrorOptions


class FlowShape(MethodOptions):
    """How a flow is built."""

    mixing: Literal["reversal", "lu"] = "reversal"
    """What a step does between its ActNorm and its coupling: reversal reverses the features (BERT-flow's code); lu
    multiplies them by a learned matrix, an invertible 1x1 convolution in LU form (BERT-CF, section 4.2)."""

    levels: Count = 3
    """Levels of the flow. After each level but the last, half of the features is finished. BERT-flow's code; BERT-CF
    has one level."""

    depth: Count = 3
    """Steps of a level. BERT-flow's code; BERT-CF, section 5.3."""

    width: Count = 32
    """Features of the hidden layers in the couplings. BERT-flow's code."""


class FlowOptions(FlowShape):
    """BERT-flow: a normalising flow on the vectors of a frozen encoder, trained by their likelihood."""

    cached: bool = True
    """Compute the encoder's vectors once, without dropout; BERT-flow leaves BERT unchanged. With --no-cached they are
    computed in every step, under dropout. The authors' code does that, and so do the published scores."""


class BERTCFOptions(FlowShape, MirrorOptions):
    """BERT-CF's second stage: a flow on a frozen encoder, trained by its likelihood and by a contrastive loss."""

    mixing: Literal["reversal", "lu"] = "lu"
    """What a step does between its ActNorm and its coupling: reversal reverses the features (BERT-flow's code); lu
    multiplies them by a learned matrix, an invertible 1x1 convolution in LU form (BERT-CF, section 4.2)."""

    levels: Count = 1
    """Levels of the flow. After each level but the last, half of the features is finished. BERT-CF, section 4.2."""

    spans: Literal["characters", "tokens"] = "tokens"
    """What is masked: characters of the text, all by one mask (MirrorBERT), or tokens, each by a mask (BERT-CF, section
    4.1)."""

    symmetric: bool = False
    """Both views are queries, as in MirrorBERT. In BERT-CF's formula only the unmasked view is (section 4.1)."""

    contrastive_weight: Positive = 0.3
    """Weight of the contrastive loss, lambda_mirror; the likelihood, in bits for each feature, has weight 1. BERT-CF,
    section 5.3. For no contrastive loss, use the method flow."""

    train_encoder: bool = False
    """Train the encoder too, by the contrastive loss alone; the likelihood trains only the flow. BERT-CF's ablation
    "joint", section 6.1."""

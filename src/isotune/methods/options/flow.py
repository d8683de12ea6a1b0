"""Options of BERT-flow, and of BERT-CF's second stage."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from isotune.methods.options.base import MethodOptions
from isotune.methods.options.mirror import MirrorOptions

Count = Annotated[int, Field(ge=1)]


class FlowShape(MethodOptions):
    """How a flow is built."""

    mixing: Literal["reversal", "lu"] = "reversal"
    """What a step does to the features between its ActNorm and its coupling: reverse them (BERT-flow's code), or
    multiply them by a learned matrix, an invertible 1x1 convolution in LU form (BERT-CF, section 4.2)."""

    levels: Count = 3
    """After each level but the last, half of the features is finished. BERT-flow's code; BERT-CF has one level."""

    depth: Count = 3
    """Steps of a level. BERT-flow's code; BERT-CF, section 5.3."""

    width: Count = 32
    """Of the hidden layers in the couplings. BERT-flow's code."""


class FlowOptions(FlowShape):
    """BERT-flow: a normalising flow on the vectors of a frozen encoder, trained by their likelihood."""

    cached: bool = True
    """Compute the encoder's vectors once, without dropout: BERT stays as it is. With false they're computed in every
    step and the model's dropout is on, as in the authors' code, which the published scores are from."""


class BERTCFOptions(FlowShape, MirrorOptions):
    """BERT-CF's second stage: a flow on a frozen encoder, trained by likelihood and a contrastive loss on it."""

    mixing: Literal["reversal", "lu"] = "lu"
    """What a step does to the features between its ActNorm and its coupling: reverse them (BERT-flow's code), or
    multiply them by a learned matrix, an invertible 1x1 convolution in LU form (BERT-CF, section 4.2)."""

    levels: Count = 1
    """After each level but the last, half of the features is finished. BERT-CF, section 4.2, has no more than one."""

    spans: Literal["characters", "tokens"] = "tokens"
    """What is masked: characters of the text, 5 of them by one mask (MirrorBERT), or tokens, each by its own (BERT-CF,
    section 4.1)."""

    symmetric: bool = False
    """Both views are queries, as in MirrorBERT. BERT-CF's formula has only the unmasked one (section 4.1)."""

    contrastive_weight: Annotated[float, Field(gt=0)] = 0.3
    """Of the contrastive loss, lambda_mirror; that of the likelihood, in bits for each feature, is 1. BERT-CF, section
    5.3. Without it the method is flow."""

    train_encoder: bool = False
    """The contrastive loss trains the encoder too; the likelihood trains only the flow. BERT-CF's ablation "joint",
    section 6.1."""

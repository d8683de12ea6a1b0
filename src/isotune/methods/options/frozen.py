"""Options of the methods that leave the pretrained model as it is, and add layers or weights of tokens."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from isotune.methods.options.base import Count, MethodOptions, Positive
from isotune.methods.options.unlabelled import MirrorOptions


class WhiteningOptions(MethodOptions):
    """Whitening: a linear map after which the vectors of the training text have covariance 1; it takes no steps."""

    takes_steps: ClassVar[bool] = False

    dimensions: Count | None = None
    """Features to keep, those of the largest variance. The paper keeps 256 of 768. Unset: all."""

    strength: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The power of its standard deviation that each direction is divided by. With 1 all variances become 1; with less,
    directions that varied little stay short (attenuated whitening, Mukundan et al. 2019). 1: the paper."""


class SIFOptions(MethodOptions):
    """SIF: rare tokens weigh more in the mean, and the direction that all sentences share is removed. No steps."""

    takes_steps: ClassVar[bool] = False

    smoothing: Annotated[float, Field(gt=0)] = 1e-3
    """The weight of a token is a / (a + p), where p is the token's share of the text; this is a. A smaller a
    lowers the weight of frequent tokens. 1e-3: the paper, which has good results from 1e-4 to 1e-3."""


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

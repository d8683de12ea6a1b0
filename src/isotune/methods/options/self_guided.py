"""Options of the self-guided paper's methods, those with back-translation too."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from isotune.methods.options.base import MethodOptions, Temperature

Objective = Literal["base", "opt1", "opt2", "opt3"]


class TetheredOptions(MethodOptions):
    """What all of the paper's methods have."""

    temperature: Temperature = 0.01
    """Divides the cosine similarities. Self-guided paper, Table 8."""

    projection: bool = True
    """Compare vectors after two layers of 4096 with GELU, which are dropped afterwards. Self-guided paper, section 3.1;
    without them its Table 5 loses 1.84 points."""

    regularizer: Annotated[float, Field(ge=0)] = 0.1
    """Weighs the squared distance of all weights from where they started. Self-guided paper, Table 8 (lambda)."""


class SelfGuidedOptions(TetheredOptions):
    """Self-guided contrastive learning: every layer of a fixed copy of the model shows what a sentence is like."""

    objective: Objective = "opt3"
    """One of the self-guided paper's section 3.2, each a step further: base is SG, opt3 is SG-OPT."""

    view_pooling: Literal["max", "mean", "cls"] = "max"
    """How the tokens of a layer of the fixed copy become one vector. Self-guided paper, section 3.1: max; its SentEval
    runs, and the authors' code: mean."""

    view_layers: tuple[int, ...] = ()
    """Which layers of the fixed copy are views; 0 is the embeddings. The self-guided paper takes all, and leaves the
    first ones out for SentEval (A.3). Unset: all."""

    frozen_dropout: bool = False
    """Keep dropout on in the fixed copy while training. The authors' released code does, by accident; whether the
    published numbers were made so is not told."""

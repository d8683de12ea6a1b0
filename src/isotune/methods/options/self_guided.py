"""Options of the self-guided paper's methods."""

from __future__ import annotations

from typing import Literal

from isotune.methods.options.base import MethodOptions, NotNegative, Positive

Objective = Literal["base", "opt1", "opt2", "opt3"]


class TetheredOptions(MethodOptions):
    """The options of all methods of the paper."""

    temperature: Positive = 0.01
    """Divides the cosine similarities. Self-guided paper, Table 8."""

    projection: bool = True
    """Compare vectors after two layers of 4096 features with GELU, which are dropped after training. Self-guided paper,
    section 3.1; without the layers, its Table 5 loses 1.84 points."""

    regularizer: NotNegative = 0.1
    """Weight (lambda) of the squared distance of all weights from their starting values. Self-guided paper, Table 8."""


class SelfGuidedOptions(TetheredOptions):
    """Self-guided contrastive learning: the layers of a fixed copy of the model give the views of a sentence."""

    objective: Objective = "opt3"
    """The loss of the self-guided paper, section 3.2: base is SG, opt3 is SG-OPT, opt1 and opt2 are the steps
    between."""

    view_pooling: Literal["max", "mean", "cls"] = "max"
    """How the tokens of a layer of the fixed copy become one vector. max: self-guided paper, section 3.1; mean: its
    SentEval runs, and the authors' code."""

    view_layers: tuple[int, ...] = ()
    """The layers of the fixed copy that are views; 0 is the embeddings. The self-guided paper takes all layers, but not
    the first ones for SentEval (A.3). Unset: all."""

    frozen_dropout: bool = False
    """Keep dropout on in the fixed copy. The authors' code does so by accident; it is not known whether the
    published numbers were made so."""

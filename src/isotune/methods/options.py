"""The methods and their options. No torch here: the command line's help and recipes read these models.

A field's name is its key in a recipe's TOML, its flag on the command line and its entry in a run's record; its
docstring is the flag's help. Defaults come from the paper's text; where the authors' code differs, the docstring says
so.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Rate = Annotated[float, Field(ge=0, lt=1)]
Temperature = Annotated[float, Field(gt=0)]
AugmentationName = Literal["none", "shuffle", "token_cutoff", "feature_cutoff", "dropout"]


class MethodOptions(BaseModel):
    """Options of a method."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class SimCSEOptions(MethodOptions):
    """SimCSE without labels: a sentence's two views differ only by the model's dropout."""

    temperature: Temperature = 0.05
    """Divides the cosine similarities. 0.05 is the authors' choice."""

    projection: bool = True
    """Train through a linear layer with tanh, dropped afterwards, as the authors do with the [CLS] vector."""


class ConSERTOptions(MethodOptions):
    """ConSERT without labels: two views by augmentations in the embedding layer, compared by NT-Xent."""

    augmentations: tuple[AugmentationName, AugmentationName] = ("feature_cutoff", "shuffle")
    """How each of the two views is made: none, shuffle, token_cutoff, feature_cutoff or dropout. The best pair of
    ConSERT's Figure 5."""

    temperature: Temperature = 0.1
    """Divides the cosine similarities. ConSERT, section 5.4."""

    token_cutoff_rate: Rate = 0.15
    """Share of a sentence's tokens that token_cutoff sets to 0. ConSERT, section 4.1."""

    feature_cutoff_rate: Rate = 0.2
    """Share of the features that feature_cutoff sets to 0. ConSERT, section 4.1."""

    dropout_rate: Rate = 0.2
    """Share of a sentence's elements that dropout sets to 0. ConSERT, section 4.1."""

"""The base class of all method options, and the types that several options share."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from isotune.views import AUGMENTATIONS

Rate = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]
AugmentationName = Annotated[str, AfterValidator(AUGMENTATIONS.check)]
Sources = Annotated[tuple[str, ...], Field(min_length=1)]


class MethodOptions(BaseModel):
    """Options of a method.

    The three functions below say what the options name besides numbers and switches. An options class overrides them
    if its fields name data or models; most do not.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    takes_steps: ClassVar[bool] = True
    """Whether weights are trained step by step. A closed form has no batches, no rate and no schedule."""

    def training_sources(self) -> tuple[str, ...]:
        """The sources that the options name to train on, in place of the recipe's `data`; empty if they name none."""
        return ()

    def dev_sources(self) -> tuple[str, ...]:
        """The labelled sources that the method is scored on; empty if the recipe's dev pairs choose the best step."""
        return ()

    def extra_models(self) -> tuple[str, ...]:
        """The models that the method loads beside the encoder, such as translation models."""
        return ()


class AugmentedOptions(MethodOptions):
    """How the two views of a sentence are changed inside the embedding layer, beside what the method does."""

    augmentations: tuple[AugmentationName, AugmentationName] = ("none", "none")
    """The augmentations of a sentence's two views: none, shuffle, token_cutoff, feature_cutoff, dropout, or one of a
    plugin."""

    token_cutoff_rate: Rate = 0.15
    """Share of a sentence's tokens that token_cutoff sets to 0. ConSERT, section 4.1."""

    feature_cutoff_rate: Rate = 0.2
    """Share of the features that feature_cutoff sets to 0. ConSERT, section 4.1."""

    dropout_rate: Rate = 0.2
    """Share of a sentence's elements that dropout sets to 0. ConSERT, section 4.1."""

"""Options of SNCSE."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from isotune.methods.options.base import MethodOptions, Temperature


class SNCSEOptions(MethodOptions):
    """SNCSE, without labels: a sentence's negation is a soft negative, a bit further away than the sentence itself."""

    temperature: Temperature = 0.05
    """Divides the cosine similarities of InfoNCE. The authors' code."""

    margin_weight: Annotated[float, Field(ge=0)] = 1e-3
    """Of the bidirectional margin loss (lambda). 1e-3 is the authors' for BERT and the small-BERT paper's; for RoBERTa
    theirs is 5e-4."""

    alpha: Annotated[float, Field(ge=0, le=2)] = 0.1
    """The negation's cosine has to be lower than the sentence's own by this at least. The authors' code."""

    beta: Annotated[float, Field(ge=0, le=2)] = 0.3
    """And by this at most. 0.3 is the authors' code; the small-BERT paper has 2.0."""

    prompts: bool = True
    """Train with the authors' prompts, on the vector at their mask token, and leave the encoder with that prompt and
    pooling. Without, sentences and pooling are the encoder's own, as in the small-BERT paper."""

    projection: bool = True
    """Train through a linear layer with tanh, dropped afterwards, as the authors do."""

    parser: Annotated[str, Field(min_length=1)] = "auto"
    """What finds the verb to negate: auto (spaCy's en_core_web_sm, the authors', if it is installed, or else words),
    words (word lists, which need nothing), or a spaCy model by name or folder."""

    @model_validator(mode="after")
    def _some_room(self) -> SNCSEOptions:
        if self.alpha > self.beta:
            raise ValueError(f"alpha {self.alpha:g} is above beta {self.beta:g}: no difference would do for both")
        return self

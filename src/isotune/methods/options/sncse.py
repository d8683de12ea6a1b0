"""Options of SNCSE."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from isotune.methods.options.base import MethodOptions, NotNegative, Positive


class SNCSEOptions(MethodOptions):
    """SNCSE, without labels: the negation of a sentence is a soft negative, a little less similar than a view."""

    temperature: Positive = 0.05
    """Divides the cosine similarities of InfoNCE. The authors' code."""

    margin_weight: NotNegative = 1e-3
    """Weight (lambda) of the bidirectional margin loss. 1e-3: the authors for BERT, and the small-BERT paper; 5e-4: the
    authors for RoBERTa."""

    alpha: Annotated[float, Field(ge=0, le=2)] = 0.1
    """Least amount by which the cosine with the negation should be lower than that of the two views. The authors'
    code."""

    beta: Annotated[float, Field(ge=0, le=2)] = 0.3
    """Greatest amount by which the cosine with the negation should be lower. 0.3: the authors' code; the small-BERT
    paper has 2.0."""

    prompts: bool = True
    """Train with the authors' prompts, on the vector of their mask token, and leave this prompt and pooling in the
    encoder. With --no-prompts, prompt and pooling stay as they are, as in the small-BERT paper."""

    projection: bool = True
    """Train through a linear layer with tanh, which is dropped after training, as the authors do."""

    parser: Annotated[str, Field(min_length=1)] = "auto"
    """How the verb to negate is found: words (word lists, which need nothing), a spaCy model by name or folder, or auto
    (spaCy's en_core_web_sm, which the authors use, if it is installed, otherwise words)."""

    @model_validator(mode="after")
    def _ordered_margins(self) -> SNCSEOptions:
        if self.alpha > self.beta:
            raise ValueError(f"alpha {self.alpha:g} is above beta {self.beta:g}: no difference would do for both")
        return self

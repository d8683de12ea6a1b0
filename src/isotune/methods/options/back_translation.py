"""Options of the methods that learn from paraphrases."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from isotune.methods.options.base import MethodOptions
from isotune.methods.options.self_guided import SelfGuidedOptions, TetheredOptions


class ParaphraseOptions(MethodOptions):
    """Where paraphrases are from."""

    translate: tuple[str, str] | None = None
    """Two translation models, there and back, such as Helsinki-NLP/opus-mt-en-de Helsinki-NLP/opus-mt-de-en: folders,
    or names on the Hugging Face hub. They make the paraphrases of a corpus of sentences, once. Unset: the corpus is
    pairs of a sentence and its paraphrase."""

    beams: Annotated[int, Field(ge=1)] = 100
    """Width of the translation's beam search; its time and memory grow with it. Self-guided paper, A.2."""

    def extra_models(self) -> tuple[str, ...]:
        """The translation models, if the paraphrases are made and not read."""
        return self.translate or ()


class BackTranslationOptions(ParaphraseOptions, TetheredOptions):
    """Contrastive learning from paraphrases by back-translation: a sentence and its paraphrase are the two views."""


class SelfGuidedBackTranslationOptions(ParaphraseOptions, SelfGuidedOptions):
    """Self-guidance with back-translation: the fixed copy sees the paraphrase."""

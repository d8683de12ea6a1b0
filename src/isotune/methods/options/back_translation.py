"""Options of the methods that learn from paraphrases."""

from __future__ import annotations

from isotune.methods.options.base import Count, MethodOptions
from isotune.methods.options.self_guided import SelfGuidedOptions, TetheredOptions


class ParaphraseOptions(MethodOptions):
    """Where the paraphrases come from."""

    translate: tuple[str, str] | None = None
    """Make the paraphrases by translating each sentence with the first model and back with the second: folders or names
    on the Hugging Face hub, such as Helsinki-NLP/opus-mt-en-de Helsinki-NLP/opus-mt-de-en. Unset: read them; the data
    are pairs of a sentence and its paraphrase."""

    beams: Count = 100
    """Width of the translation's beam search; its time and memory grow with the width. Self-guided paper, A.2."""

    def extra_models(self) -> tuple[str, ...]:
        """The translation models, if the paraphrases are made."""
        return self.translate or ()


class BackTranslationOptions(ParaphraseOptions, TetheredOptions):
    """Contrastive learning from paraphrases: the two views are a sentence and its back-translation."""


class SelfGuidedBackTranslationOptions(ParaphraseOptions, SelfGuidedOptions):
    """Self-guidance with back-translation: the fixed copy encodes the paraphrase."""

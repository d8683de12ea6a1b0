"""Contrastive learning from back-translations, alone and with self-guidance (Kim et al., 2021).

Alone, this is the baseline Contrastive (BT) of the self-guided paper (appendix A.2). It differs from SG only in its
views: a sentence and its back-translation, both encoded by the tuned model and compared by NT-Xent. With self-guidance
(section 6, Table 7), the tuned model encodes the sentence and the fixed copy encodes the back-translation.

The paraphrases are the second texts of the corpus, or two translation models make them and a cache keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from torch import Tensor

from isotune.data.cache import TextCache
from isotune.data.rows import Pair, Row, Sentence
from isotune.encoder.encoder import Encoder
from isotune.losses import nt_xent
from isotune.methods.method import Batch, Method, View
from isotune.methods.options.back_translation import (
    BackTranslationOptions,
    ParaphraseOptions,
    SelfGuidedBackTranslationOptions,
)
from isotune.methods.protocols import DerivesRows
from isotune.methods.self_guided import SelfGuided, Tethered
from isotune.methods.translation import BackTranslator

BATCH = 256  # sentences between two writes to the cache


class Paraphrased(Method, DerivesRows):
    """A method on pairs of a sentence and its paraphrase, which are read or made."""

    rows: type[Row] = Pair
    translator: BackTranslator | None

    @property
    def reads(self) -> type[Row]:  # type: ignore[override]
        """Sentences where the paraphrases have to be made, or else pairs."""
        return Sentence if self.translator else Pair

    def prepare(self, rows: Iterable[Row], cache: Path | None, say: Callable[[str], None]) -> Iterator[Row]:
        """Pairs unchanged; or each sentence with its back-translation, left out where the translation is blank."""
        if self.translator is None:
            yield from rows
            return
        translate, made = self.translator, 0

        def make(texts: list[str]) -> list[str]:
            nonlocal made
            paraphrases = translate(texts)
            made += len(texts)
            say(f"back-translation: {made:,} made")
            return paraphrases

        path = cache and cache / "back-translation.sqlite"
        say(f"back-translation: by {' and '.join(translate.models)}, kept in {path or 'memory'}")
        for text, paraphrase in TextCache(path, translate.settings).get_or_make((row[0] for row in rows), make, BATCH):
            if paraphrase:
                yield Pair(text, paraphrase)


class BackTranslation(Paraphrased, Tethered):
    """A sentence and its paraphrase, both encoded by the tuned model and compared by NT-Xent."""

    def __init__(self, options: BackTranslationOptions, encoder: Encoder) -> None:
        super().__init__(options, encoder)
        self.translator = _translator(options)

    def views(self, batch: Batch) -> Sequence[View]:
        """Both texts of every pair."""
        return [View(tokens) for tokens in batch.texts]

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """L^base of the projected vectors, where the paraphrase takes the place of h."""
        first, second = (self.projection(vectors) for vectors in encoded)
        return {"nt_xent": nt_xent(first, second, self.temperature)}


class SelfGuidedBackTranslation(Paraphrased, SelfGuided):
    """Self-guidance whose fixed copy encodes the paraphrase."""

    def __init__(self, options: SelfGuidedBackTranslationOptions, encoder: Encoder) -> None:
        super().__init__(options, encoder)
        self.translator = _translator(options)


def _translator(options: ParaphraseOptions) -> BackTranslator | None:
    return BackTranslator(options.translate, options.beams) if options.translate else None

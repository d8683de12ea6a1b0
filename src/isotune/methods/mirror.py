"""MirrorBERT (Liu et al., 2021): a sentence and itself with a span masked.

Both go through the encoder, each under its own dropout, and have to find each other among all views of the batch.
MirrorBERT masks a few characters, and both views are queries: that is NT-Xent. BERT-CF (section 4.1) masks tokens and
has the unmasked sentences as queries only.

The vector is the encoder's own, with no layer that is dropped later. The authors' "mean" is over padding too; here it
is over the tokens, which their paper means.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from isotune.data.packed import Packed, pack
from isotune.data.rows import Sentence
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.losses import mirror_info_nce, nt_xent
from isotune.methods.method import Batch, Method, View
from isotune.methods.options.mirror import MirrorOptions
from isotune.views.spans import CharacterSpans, TokenSpans


class Mirror(Method):
    """A plain view and a masked one."""

    rows = Sentence

    def __init__(self, options: MirrorOptions, encoder: Encoder) -> None:
        """Takes the encoder's tokenizer and its mask.

        Raises:
            InputError: the tokenizer has no mask, or the encoder would lowercase it.
        """
        super().__init__()
        self.temperature = options.temperature
        self.compare = nt_xent if options.symmetric else mirror_info_nce
        self.tokenize = encoder.tokenize
        self.spans: CharacterSpans | TokenSpans | None = None
        if options.span_length and options.spans == "tokens":
            self.spans = TokenSpans(encoder.tokenizer, options.span_rate, options.span_length)
        elif options.span_length:
            self.spans = CharacterSpans(encoder.tokenizer, options.span_length)
            if encoder.lowercase:
                raise InputError("spans characters: this encoder lowercases all text, the mask too; use spans tokens")
        self.needs_text = isinstance(self.spans, CharacterSpans)

    def views(self, batch: Batch) -> Sequence[View]:
        """The sentences, and the sentences masked."""
        (sentences,) = batch.texts
        return View(sentences), View(self._masked(sentences, batch))

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """InfoNCE over the masked views of all and the plain ones of the others."""
        plain, masked = encoded
        return {"mirror": self.compare(plain, masked, self.temperature)}

    def _masked(self, sentences: Packed, batch: Batch) -> Packed:
        if self.spans is None:
            return sentences
        if isinstance(self.spans, TokenSpans):
            return self.spans(sentences, batch.generator)
        (text,) = batch.sentences
        return pack(self.tokenize(self.spans(text, batch.generator), batch.max_length)).to(sentences.ids.device)

"""MirrorBERT (Liu et al., 2021): a sentence and the same sentence with a masked span.

MirrorBERT masks a few characters, and both views are queries: that is NT-Xent. BERT-CF (section 4.1) masks tokens, and
only the unmasked sentences are queries. There is no projection. In the authors' code the "mean" includes padding; here
it is the mean over the tokens, as their paper says.
"""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from isotune.data.packed import Packed, pack
from isotune.data.rows import Sentence
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.losses import mirror_info_nce, nt_xent
from isotune.methods.method import Batch, Method
from isotune.methods.options import MirrorOptions
from isotune.views.spans import CharacterSpans, TokenSpans


class Mirror(Method):
    """A plain view and a masked view of each sentence."""

    rows = Sentence
    options: MirrorOptions

    def __init__(self, options: MirrorOptions, encoder: Encoder) -> None:
        """Chooses the loss and how spans are masked."""
        super().__init__(options, encoder)
        self.compare = nt_xent if options.symmetric else mirror_info_nce
        self.tokenize_masked = encoder.tokenize
        self.spans: CharacterSpans | TokenSpans | None = None
        if options.span_length and options.spans == "tokens":
            self.spans = TokenSpans(encoder.tokenizer, options.span_rate, options.span_length)
        elif options.span_length:
            self.spans = CharacterSpans(encoder.tokenizer, options.span_length)
            if encoder.lowercase:
                raise InputError(
                    "spans characters: this encoder lowercases its text, the mask token too; use spans tokens"
                )
        self.needs_text = isinstance(self.spans, CharacterSpans)

    def draw(self, batch: Batch) -> Batch:
        """Masks a span of every sentence, as a second text of its row."""
        (sentences,) = batch.texts
        return replace(batch, texts=(sentences, self._masked(sentences, batch)))

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """InfoNCE, whose candidates are all masked views and the plain views of the other sentences."""
        plain, masked = encoded
        return {"mirror": self.compare(plain, masked, self.options.temperature)}

    def _masked(self, sentences: Packed, batch: Batch) -> Packed:
        if self.spans is None:
            return sentences
        if isinstance(self.spans, TokenSpans):
            return self.spans(sentences, batch.generator)
        (text,) = batch.sentences
        return pack(self.tokenize_masked(self.spans(text, batch.generator), batch.max_length))

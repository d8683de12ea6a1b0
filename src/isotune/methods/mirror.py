"""MirrorBERT (Liu et al., 2021): a sentence and the same sentence with a masked span.

MirrorBERT masks a few characters, and both views are queries: that is NT-Xent. BERT-CF (section
4.1) masks tokens, and only the unmasked sentences are queries. There is no projection. In the
authors' code the "mean" includes padding; here it is the mean over the tokens, as their paper says.
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
from isotune.views.masking import mask_token_id
from isotune.views.spans import mask_characters, mask_tokens


class Mirror(Method):
    """A plain view and a masked view of each sentence."""

    rows = Sentence
    options: MirrorOptions

    def __init__(self, options: MirrorOptions, encoder: Encoder) -> None:
        """Chooses the loss, and checks that spans can be masked."""
        super().__init__(options, encoder)
        self.compare = nt_xent if options.symmetric else mirror_info_nce
        self.tokenizer = encoder.tokenizer
        self.tokenize_masked = encoder.tokenize
        self.needs_text = options.span_length > 0 and options.spans == "characters"
        if options.span_length:
            mask_token_id(encoder.tokenizer, "masked spans", "a span_length of 0, or another model")
        if self.needs_text and encoder.lowercase:
            raise InputError(
                "spans characters: this encoder lowercases its text, the mask token too; use spans "
                "tokens"
            )

    def draw(self, batch: Batch) -> Batch:
        """Masks a span of every sentence, as a second text of its row."""
        (sentences,) = batch.texts
        return replace(batch, texts=(sentences, self._masked(sentences, batch)))

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """InfoNCE, among all masked views and the plain views of the other sentences."""
        plain, masked = encoded
        return {"mirror": self.compare(plain, masked, self.options.temperature)}

    def _masked(self, sentences: Packed, batch: Batch) -> Packed:
        """The sentences of a batch with a masked span each."""
        options = self.options
        if not options.span_length:
            return sentences
        if options.spans == "tokens":
            return mask_tokens(
                sentences, self.tokenizer, options.span_rate, options.span_length, batch.generator
            )
        (text,) = batch.sentences
        masked = mask_characters(text, self.tokenizer, options.span_length, batch.generator)
        return pack(self.tokenize_masked(masked, batch.max_length))

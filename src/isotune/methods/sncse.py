"""SNCSE, contrastive learning with soft negative samples (Wang et al., 2022).

The negation of a sentence shares its words and not its meaning. It is no negative of InfoNCE: its cosine to the
sentence has to be lower than that of the sentence's second view by a margin, and not by more than another
(`losses/bidirectional_margin.py`). Equation 3 of "Contrastive Learning for Sentence Embeddings in BERT and its Smaller
Variants" adds the two: L_InfoNCE + lambda L_BML.

With `prompts` the vectors are those at the mask token of a prompt, as in the authors' code: one prompt for the anchor,
which the encoder keeps, and another for the positive and the negation. Without, they are the encoder's own, and the
two views of the sentence differ by dropout alone; so is the soft task of the small-BERT paper (section 5.3). Its text
names the margin loss and masked language modelling only; here InfoNCE stays, as its equation 3 has it, because the
margin alone would let all other sentences be.

While it trains, the vectors pass a linear layer with tanh that is dropped afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor, nn

from isotune.data.cache import TextCache
from isotune.data.rows import Row, Sentence, Triplet
from isotune.encoder.encoder import Encoder
from isotune.encoder.format.prompt import mask_id
from isotune.errors import InputError
from isotune.losses import bidirectional_margin, info_nce
from isotune.methods.method import Batch, Method, View
from isotune.methods.options.sncse import SNCSEOptions
from isotune.methods.projection import tanh_projection
from isotune.views.negation import RULES, negator

ANCHOR = 'This sentence : " {sentence} " means {mask} .'
POSITIVE = 'This sentence of " {sentence} " means {mask} .'
BATCH = 10_000  # sentences between two writes to the cache


class SNCSE(Method):
    """A sentence twice and its negation; InfoNCE between the first two, and a margin to the third."""

    rows = Triplet

    def __init__(self, options: SNCSEOptions, encoder: Encoder) -> None:
        """With prompts, gives the encoder the anchor's, and pooling at the mask token.

        Raises:
            InputError: the encoder has another prompt already, or a tokenizer without a mask token, or pooling at a
                mask that nothing brings; or sentences can't be negated as the options want it.
        """
        super().__init__()
        self.options = options
        self.negator = negator(options.parser)
        self.projection = tanh_projection(encoder.dimension) if options.projection else nn.Identity()
        if options.prompts:
            if encoder.prompt not in ("", ANCHOR):
                raise InputError(
                    f"prompt {encoder.prompt!r}: method sncse brings its own; leave this one out (--prompt ''), or "
                    "those of the method (--no-prompts)"
                )
            if encoder.pooling.mode == "mask" and not encoder.prompt:
                raise InputError(
                    "pooling mask without a prompt that brings a mask: the start can't be evaluated so; method sncse "
                    "brings its own prompt and pooling, so leave this one out, or choose another (--pooling cls)"
                )
            encoder.prompt = ANCHOR
            encoder.pooling = replace(encoder.pooling, mode="mask", mask_id=mask_id(encoder.tokenizer))

    @property
    def reads(self) -> type[Row]:
        """Sentences; their negations are made."""
        return Sentence

    def prepare(self, rows: Iterable[Row], cache: Path | None, say: Callable[[str], None]) -> Iterator[Row]:
        """Each sentence as anchor and as positive, and its negation."""
        path = cache and cache / "negations.sqlite"
        say(f"soft negatives: by {self.negator.name}, kept in {path or 'memory'}")
        counts: Counter[str] = Counter()

        def make(texts: list[str]) -> list[str]:
            return [f"{rule}\t{text}" for text, rule in self.negator(texts)]

        negations = TextCache(path, self.negator.settings).get_or_make((row[0] for row in rows), make, BATCH)
        for sentence, made in negations:
            rule, _, negation = made.partition("\t")
            counts[rule] += 1
            yield Triplet(sentence, sentence, negation)
        shares = ", ".join(f"{rule} {counts[rule] / counts.total():.1%}" for rule in RULES)
        say(f"soft negatives: {counts.total():,}; by the rules {shares}")

    def prompts(self) -> tuple[str | None, ...] | None:
        """The anchor's for the first text, the positive's for the others."""
        return (ANCHOR, POSITIVE, POSITIVE) if self.options.prompts else None

    def views(self, batch: Batch) -> Sequence[View]:
        """The three texts of every row."""
        return [View(sentences) for sentences in batch.texts]

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """InfoNCE from the anchors to the positives, and the weighted margin to the negations."""
        options = self.options
        anchors, positives, negations = (self.projection(vectors) for vectors in encoded)
        margin = bidirectional_margin(anchors, positives, negations, options.alpha, options.beta)
        return {
            "info_nce": info_nce(anchors, positives, options.temperature),
            "margin": options.margin_weight * margin,
        }

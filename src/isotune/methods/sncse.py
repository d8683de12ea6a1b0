"""SNCSE, contrastive learning with soft negative samples (Wang et al., 2022).

The negation of a sentence shares its words but not its meaning: it is a soft negative. InfoNCE does
not use the negation. Instead, the negation's cosine to the sentence has to be lower than that of
the sentence's second view, by at least one margin and at most another (`bidirectional_margin`).
Equation 3 of "Contrastive Learning for Sentence Embeddings in BERT and its Smaller Variants" adds
the two losses: L_InfoNCE + lambda L_BML. With `pure_negatives`, negations are hard negatives of
InfoNCE in place of that, the baseline of the authors.

With `prompts`, the vectors are those at the mask token of a prompt, as in the authors' code. The
anchor has one prompt, which the encoder keeps; the positive and the negation have another. Without
`prompts` the two views of a sentence differ only by dropout: the soft task of the small-BERT paper
(section 5.3). The text of that section names no InfoNCE; it stays here, as in equation 3, because
the margin loss does not compare different sentences.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

from torch import Tensor, nn

from isotune.data.cache import derived_texts
from isotune.data.rows import Row, Sentence, Triplet
from isotune.data.tokens import Tokenized
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.losses import bidirectional_margin, info_nce
from isotune.methods.method import Additions, Batch, Method
from isotune.methods.negation import RULES, find_parser, negate
from isotune.methods.options import SNCSEOptions
from isotune.methods.projection import tanh_projection
from isotune.views.masking import mask_token_id

ANCHOR = 'This sentence : " {sentence} " means {mask} .'
POSITIVE = 'This sentence of " {sentence} " means {mask} .'
BATCH = 10_000
"""Sentences between two writes to the cache."""


class SNCSE(Method):
    """Each sentence twice and its negation: InfoNCE between two, and margins to the third."""

    rows = Triplet
    reads = Sentence
    options: SNCSEOptions

    def __init__(self, options: SNCSEOptions, encoder: Encoder) -> None:
        """With prompts, the encoder gets the anchor's prompt and pooling at the mask token."""
        super().__init__(options, encoder)
        self.parser = find_parser(options.parser)
        self.projection: nn.Module = nn.Identity()
        if options.projection:
            self.projection = tanh_projection(encoder.dimension)
        if options.prompts:
            self.adds = _prompt_and_pooling(encoder)

    def prepare(
        self, rows: Iterable[Row], cache: Path | None, say: Callable[[str], None]
    ) -> Iterator[Row]:
        """Triplets of each sentence as anchor, the same sentence as positive, and its negation."""
        path = cache and cache / "negations.sqlite"
        say(f"soft negatives: by {self.parser.name}, kept in {path or 'memory'}")
        counts: Counter[str] = Counter()

        def make(texts: list[str]) -> list[str]:
            return [f"{rule}\t{text}" for text, rule in map(negate, self.parser.parse(texts))]

        settings = {"parser": self.parser.key}
        sentences = map(itemgetter(0), rows)
        for sentence, line in derived_texts(path, settings, sentences, make, BATCH):
            rule, _, negation = line.partition("\t")
            counts[rule] += 1
            yield Triplet(sentence, sentence, negation)
        total = counts.total()
        shares = ", ".join(f"{rule} {counts[rule] / total:.1%}" for rule in RULES)
        say(f"soft negatives: {total:,}; by the rules {shares}")

    def tokenize(
        self, encoder: Encoder, columns: Sequence[list[str]], max_length: int
    ) -> Tokenized:
        """The first text under the anchor's prompt, the others under the positive's."""
        if not self.options.prompts:
            return super().tokenize(encoder, columns, max_length)
        tokens = []
        for texts, prompt in zip(columns, (ANCHOR, POSITIVE, POSITIVE), strict=True):
            tokens.append(encoder.tokenize(texts, max_length, prompt))
        return Tokenized(tokens)

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """InfoNCE from anchors to positives, and the weighted margin loss of the negations.

        With `pure_negatives`, InfoNCE alone, in which every anchor has all negations as negatives.
        """
        options = self.options
        anchors, positives, negations = (self.projection(vectors) for vectors in encoded)
        if options.pure_negatives:
            loss = info_nce(anchors, positives, options.temperature, hard_negatives=negations)
            return {"info_nce": loss}
        margin = bidirectional_margin(anchors, positives, negations, options.alpha, options.beta)
        return {
            "info_nce": info_nce(anchors, positives, options.temperature),
            "margin": options.margin_weight * margin,
        }


def _prompt_and_pooling(encoder: Encoder) -> Additions:
    """The anchor's prompt, and pooling at its mask token.

    Raises:
        InputError: the encoder has another prompt, or a pooling that needs one.
    """
    if encoder.prompt not in ("", ANCHOR):
        raise InputError(
            f"prompt {encoder.prompt!r}: method sncse sets its own prompt; give prompt '', or keep "
            "this prompt with prompts false"
        )
    if encoder.pooling.mode == "mask" and not encoder.prompt:
        raise InputError(
            "pooling mask without a prompt that brings a mask: the start can't be evaluated; "
            "method sncse sets prompt and pooling itself: leave pooling out, or choose another, "
            "such as cls"
        )
    mask = mask_token_id(encoder.tokenizer, "method sncse", "another method")
    pooling = replace(encoder.pooling, mode="mask", mask_id=mask, mask_first=False)
    return Additions(prompt=ANCHOR, pooling=pooling)

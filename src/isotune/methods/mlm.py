"""Masked language modelling (BERT, section 3.1), alone or as an objective beside a method.

Alone, this is further pretraining, the baseline of the small-BERT paper (section 4). Beside a
contrastive loss it is that paper's objective (section 5.3): "simply the sum of these two tasks".
Every text of a row is masked, in a view of its own, as in SimCSE's code. Without labels, that code
masks both copies of a sentence; here there is one masked view, so the loss has the same mean and
more noise.

The language head stays with the encoder and is saved in its folder. A later stage without masked
language modelling drops the head, because it would no longer fit the model.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from isotune.data.rows import Sentence
from isotune.encoder.encoder import Encoder
from isotune.encoder.language import LanguageHead
from isotune.encoder.pooling import TokenStates
from isotune.losses import token_cross_entropy
from isotune.methods.method import Additions, Batch, Method, View
from isotune.methods.options import MLMOptions
from isotune.views.masking import mask_token_id, masked

BLOCK_TOKENS = 2048
"""Masked tokens whose scores are held at once; those of more are recomputed to go backward."""


class MLM(Method):
    """One masked view of each text of a row. The loss is computed at the masked tokens only."""

    rows = Sentence
    has_widths = False

    def __init__(self, options: MLMOptions, encoder: Encoder, weight: float = 1.0) -> None:
        """Takes the encoder's language head, or makes one. `weight` multiplies the loss."""
        super().__init__(options, encoder)
        mask_token_id(encoder.tokenizer, "masked language modelling", "another model")
        self.weight = weight
        self.rate = options.masking_rate
        self.tokenizer = encoder.tokenizer
        head = encoder.language_head or LanguageHead(encoder.backbone.model)
        self.adds = Additions(language_head=head)

    def draw(self, batch: Batch) -> Batch:
        """Masks tokens of every text."""
        texts = []
        for tokens in batch.texts:
            texts.append(masked(tokens, self.tokenizer, self.rate, batch.generator))
        return replace(batch, masked=tuple(texts))

    def views(self, batch: Batch) -> Sequence[View]:
        """The masked texts, of which only the masked tokens' states are needed."""
        return [View(text.tokens, pooling=TokenStates(text.places)) for text in batch.masked]

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """The mean cross entropy of the masked tokens over the vocabulary; 0 if there is none."""
        states = torch.cat(list(encoded))  # [M, d]
        targets = torch.cat([text.targets for text in batch.masked])  # [M]
        blocks = list(zip(states.split(BLOCK_TOKENS), targets.split(BLOCK_TOKENS), strict=True))
        if len(blocks) == 1:
            total = self._total(*blocks[0])
        else:
            sums = [checkpoint(self._total, *block, use_reentrant=False) for block in blocks]
            total = torch.stack(sums).sum()
        return {"mlm": self.weight * (total / max(1, len(states)))}

    def _total(self, states: Tensor, targets: Tensor) -> Tensor:
        """The sum of the losses of tokens: states [M, d] and targets [M] -> a scalar."""
        assert self.adds.language_head is not None
        return token_cross_entropy(self.adds.language_head(states), targets)

"""Masked language modelling (BERT, section 3.1), alone or beside another method.

Some tokens of each sentence are masked; the head on their last states has to say what stood there. Alone it is
further pretraining, the baseline of "Contrastive Learning for Sentence Embeddings in BERT and its Smaller Variants"
(section 4), or the pretraining of a new model. Beside a contrastive loss it is that paper's objective (section 5.3):
"simply the sum of these two tasks", here on a masked view of its own.

The head stays with the encoder and is saved in its folder, so that masked language modelling can go on from there. A
later stage without masked language modelling drops it: it would no longer fit the model, which goes on alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from isotune.data.rows import Sentence
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads.language import LanguageHead
from isotune.encoder.pooling import TokenStates
from isotune.errors import InputError
from isotune.losses.token_cross_entropy import token_cross_entropy
from isotune.methods.method import Batch, Method, View
from isotune.methods.options.base import MethodOptions
from isotune.methods.options.mlm import MLMOptions
from isotune.views.masking import Masking

BLOCK_TOKENS = 2048  # masked tokens whose scores are held at once; those of more are made a second time to go back


class MLM(Method):
    """One masked view of each sentence; the loss is taken at the masked tokens alone."""

    rows = Sentence
    _targets: Tensor  # [M] int64, of the view made last

    def __init__(self, options: MLMOptions, encoder: Encoder) -> None:
        """Gives the encoder a language head if it has none.

        Raises:
            InputError: the encoder's tokenizer has no mask.
        """
        super().__init__()
        self.masking = Masking(encoder.tokenizer, options.masking_rate)
        if encoder.language_head is None:
            encoder.language_head = LanguageHead(encoder.backbone.model)
            if fresh := encoder.language_head.fresh:
                self.notes = (f"the model has no whole masked-LM head; new, with random weights: {', '.join(fresh)}",)
        # In a tuple: the head is the encoder's to train and to save, not this module's.
        self._head = (encoder.language_head,)

    def views(self, batch: Batch) -> Sequence[View]:
        """The first text of each row, masked."""
        masked = self.masking(batch.texts[0], batch.generator)
        self._targets = masked.targets
        return [View(masked.tokens, pooling=TokenStates(masked.places))]

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """Cross entropy over the vocabulary, the mean over the masked tokens; 0 if chance masked none."""
        (states,) = encoded  # [M, d]
        blocks = list(zip(states.split(BLOCK_TOKENS), self._targets.split(BLOCK_TOKENS), strict=True))
        if len(blocks) == 1:
            total = self._total(*blocks[0])
        else:
            sums = [checkpoint(self._total, *block, use_reentrant=False) for block in blocks]
            total = torch.stack(sums).sum()
        return {"mlm": total / max(1, len(states))}

    def _total(self, states: Tensor, targets: Tensor) -> Tensor:
        """The sum of the losses of tokens [M, d], [M]."""
        (head,) = self._head
        return token_cross_entropy(head(states), targets)


def with_mlm(kind: type[Method], options: MethodOptions, encoder: Encoder, weight: float, rate: float) -> Method:
    """A method that adds masked language modelling to its own loss.

    Args:
        kind: the method's class.
        options: the method's.
        encoder: what it trains; it gets a language head.
        weight: of the masked-LM loss, "mlm" among the terms; 1 is the paper's sum.
        rate: probability that a token of a row's first text is masked.

    Raises:
        InputError: the method gives no text of its own to the encoder that is trained.
    """

    class WithMLM(kind):  # type: ignore[misc, valid-type]
        """A subclass, so that all else that a method says of itself stays what it is."""

        def __init__(self, encoder: Encoder) -> None:
            super().__init__(options, encoder)
            self.mlm = MLM(MLMOptions(masking_rate=rate), encoder)
            self.notes += self.mlm.notes

        def trained(self, encoder: Encoder) -> Iterable[nn.Parameter]:
            assert encoder.language_head is not None
            return [*super().trained(encoder), *encoder.language_head.parameters()]

        def views(self, batch: Batch) -> Sequence[View]:
            views = super().views(batch)
            return [*views, *self.mlm.views(batch)] if self.training else views

        def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
            *own, states = encoded
            return {**super().loss(own, batch), "mlm": weight * self.mlm.loss([states], batch)["mlm"]}

        def adversary(self, encoded: Sequence[Tensor], batch: Batch) -> Tensor:
            adversary: Tensor = super().adversary(encoded[:-1], batch)
            return adversary

    method: Method = WithMLM(encoder)
    if kind is MLM or method.cached or method.feeds():
        raise InputError("mlm_weight: this method can't have masked language modelling beside it; leave it at 0")
    return method

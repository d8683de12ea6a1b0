"""How well a model guesses masked words of text it has not seen."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator
from torch.nn.functional import cross_entropy

from isotune.data.packed import pack
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads.language import LanguageHead
from isotune.views.masking import Masking

BATCH_SENTENCES = 128


@torch.no_grad()
def masked_lm_loss(encoder: Encoder, sentences: Sequence[str], rate: float = 0.15, seed: int = 7) -> float:
    """The mean cross entropy of the masked tokens of all sentences, in nats.

    Losses of models with different vocabularies can't be compared exactly.

    Args:
        encoder: the model; the head is its own, or else that of the folder it was loaded from.
        sentences: held out from training.
        rate: probability that a token is masked.
        seed: of the masks, so that every model gets the same ones.
    """
    head = (encoder.language_head or LanguageHead(encoder.backbone.model)).to(encoder.device)
    masking, generator = Masking(encoder.tokenizer, rate), Generator().manual_seed(seed)
    encoder.eval()
    total, count = 0.0, 0
    for start in range(0, len(sentences), BATCH_SENTENCES):
        tokens = pack(encoder.tokenize(sentences[start : start + BATCH_SENTENCES]))
        masked = masking(tokens.to(encoder.device), generator)
        (states,) = encoder.backbone(masked.tokens)  # [T, d]
        scores = head(states[masked.places]).float()  # [M, V]
        total += cross_entropy(scores, masked.targets, reduction="sum").item()
        count += len(masked.targets)
    return total / count

"""The parts of a sentence encoder, and the way of sentences through them."""

import logging
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from isotune.data.packed import Packed
from isotune.encoder.backbone import Backbone
from isotune.encoder.format.prompt import Prepared, Prompts, fill_mask, split_prompt
from isotune.encoder.heads import Head, Heads
from isotune.encoder.language import LanguageHead
from isotune.encoder.pooling import Pooling, TokenStates
from isotune.errors import InputError
from isotune.views.augmentation import Augmentation
from isotune.views.masking import mask_token_id

logger = logging.getLogger(__name__)

# Size of a batch of `encode`: bytes of one hidden state of all its tokens. A CPU multiplies larger
# batches faster up to about this size; twice as large ones are faster or slower, by model and
# measurement. A GPU needs more work at once.
BATCH_BYTES = {"cpu": 2**22, "cuda": 2**25}
# The names of prompts for queries and documents in sentence-transformers' folders. The first that a
# folder has is taken.
ROLES = {"query": ("query",), "document": ("document", "passage", "corpus")}
# The share of tokens outside of the vocabulary above which `SentenceModel.tokenize` warns.
MUCH_UNKNOWN = 0.2
# More characters than the tokens of a text have on average. The words of most languages have fewer
# than ten.
CHARACTERS_OF_TOKEN = 32


class SentenceModel(nn.Module):
    """Turns packed sentences into vectors.

    All sentences of a batch stand one after another, without padding: see `Packed` and `Backbone`.
    The path is

        sentences -> tokenize -> pack -> backbone -> pooling -> heads -> vectors [N, d]

    Attributes:
        backbone: the pretrained model on packed sentences.
        pooling: which layers and tokens make the sentence vector.
        heads: layers after the pooling (Dense, Normalize, NormalizingFlow), in order.
        tokenizer: transformers' tokenizer.
        max_length: longer sentences are cut to this many tokens, special tokens included.
        lowercase: whether text is lowercased before the tokenizer.
        prompt: text put before every sentence, or around it, see `EncoderOptions`.
        prompts: prepares the tokenizer for this prompt and others.
        settings: other settings of the folder for sentence-transformers, such as further prompts;
            kept on saving.
        token_weights: [vocabulary] how much each token weighs in pooling mean; None for equal
            weights.
        language_head: the masked-LM head, once a method trains one; it is saved in the same file as
            the model.
    """

    def __init__(
        self,
        backbone: Backbone,
        pooling: Pooling,
        heads: Sequence[Head],
        tokenizer: PreTrainedTokenizerBase,
        max_length: int,
        *,
        lowercase: bool = False,
        prompt: str = "",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Joins the parts; refuses layers of the pooling, or sizes of the heads, that don't fit."""
        super().__init__()
        backbone.check_layers(pooling.resolve(backbone.layers))
        self.backbone = backbone
        self.heads = Heads(backbone.dimension, heads)
        self.tokenizer = tokenizer
        if pooling.mode == "mask":
            mask = mask_token_id(tokenizer, "pooling mask", "another pooling")
            before = fill_mask(split_prompt(prompt, lowercase)[0], tokenizer)
            pooling = replace(pooling, mask_id=mask, mask_first=tokenizer.mask_token in before)
        self.pooling = pooling
        self.max_length = max_length
        self.lowercase = lowercase
        self.prompt = prompt
        self.prompts = Prompts(tokenizer, lowercase)
        self.settings = settings or {}
        self.token_weights: Tensor | None
        self.register_buffer("token_weights", None)
        self.language_head: LanguageHead | None = None
        # The warnings that were given. A copy with another prompt has the same set.
        self._warned: set[str] = set()

    def with_parts(self, *, pooling: Pooling | None = None, heads: Heads | None = None) -> Self:
        """An encoder of the same weights that pools otherwise, or has other heads."""
        other = copy(self)
        if pooling is not None:
            other.pooling = pooling
        if heads is not None:
            other._modules = {**self._modules, "heads": heads}
        return other

    @property
    def roles(self) -> dict[str, str]:
        """The prompt of a query and of a document, by `ROLES`.

        It is empty if the folder has none for either.
        """
        prompts = self.settings.get("prompts") or {}
        texts = {role: _first_prompt(prompts, names) for role, names in ROLES.items()}
        if not any(texts.values()):
            return {}
        return texts

    def prompted(self, role: str) -> Self:
        """An encoder of the same weights with the prompt of a role.

        If no role has a prompt, the encoder has its usual one.
        """
        other = copy(self)
        other.prompt = self.roles.get(role, self.prompt)
        return other

    @property
    def dimension(self) -> int:
        """Features of a sentence vector."""
        return self.heads.dimension

    @property
    def language_model(self) -> PreTrainedModel:
        """The pretrained model, with its language head if there is one."""
        if self.language_head:
            return self.language_head.language_model
        return self.backbone.model

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def batch_tokens(self) -> int:
        """Tokens of a batch that suits the device."""
        token_bytes = self.backbone.dimension * self.backbone.model.dtype.itemsize
        return BATCH_BYTES.get(self.device.type, BATCH_BYTES["cuda"]) // token_bytes

    def forward(
        self,
        tokens: Packed,
        augmentation: Augmentation | None = None,
        pooling: Pooling | None = None,
    ) -> Tensor:
        """Encodes packed sentences: returns [N, d], in the caller's order.

        The arguments are as in `Backbone.forward`. `pooling` replaces the encoder's pooling; a
        method may train on another pooling than the encoder keeps.
        """
        return self.heads(self.pool(tokens, augmentation, pooling))

    def pool(
        self,
        tokens: Packed,
        augmentation: Augmentation | None = None,
        pooling: Pooling | TokenStates | None = None,
        backbone: Backbone | None = None,
    ) -> Tensor:
        """Computes the pooled hidden states [N, d], without the heads.

        The arguments and the order are as `forward` has them. `backbone` replaces the encoder's. A
        pooling of `each` layer gives [N, layers, d], and `TokenStates` [M, d] in the order of its
        places.
        """
        backbone = backbone or self.backbone
        pooling = (pooling or self.pooling).numbered(backbone.layers)
        states = backbone(tokens, augmentation, pooling.layers)
        pooled = pooling(states, tokens, self.token_weights)
        if isinstance(pooling, TokenStates):
            return pooled
        return tokens.restore(pooled)

    def tokenize(
        self, sentences: Sequence[str], max_length: int | None = None, prompt: str | None = None
    ) -> list[list[int]]:
        """Converts each sentence to token ids, with prompt and special tokens.

        `max_length` and `prompt` replace the encoder's; longer sentences are cut to `max_length`
        tokens.
        """
        if prompt is None:
            prompt = self.prompt
        limit = max_length or self.max_length
        prepared = self.prompts.prepared(prompt, limit)
        ids = self._cut_ids(sentences, prepared, limit)
        for sentence, tokens in zip(sentences, ids, strict=True):
            if not tokens:
                raise InputError(f"the tokenizer makes no token of {sentence!r:.100}")
        self._note_unknown(ids, prepared.tokens * len(ids))
        return ids

    def _cut_ids(self, sentences: Sequence[str], prepared: Prepared, limit: int) -> list[list[int]]:
        """The ids of each sentence, cut to `limit` tokens.

        A tokenizer reads a text to its end, however few tokens are asked for. So only a part of a
        long text is read at first.
        """
        most = CHARACTERS_OF_TOKEN * limit
        looked_at = slice(most)
        if self.tokenizer.truncation_side == "left":
            # Such a tokenizer keeps the end of a text.
            looked_at = slice(-most, None)
        ids = _ids_of([sentence[looked_at] for sentence in sentences], prepared)
        for place, sentence in enumerate(sentences):
            # White space and very long words have more characters for each token.
            if len(sentence) > most and len(ids[place]) < limit:
                (ids[place],) = _ids_of([sentence], prepared)
        return ids

    def _note_unknown(self, ids: Sequence[Sequence[int]], special: int) -> None:
        """Says once that much of a text, whose ids have `special` others, is not in the vocabulary.

        The others are special tokens and those of the prompt.
        """
        unknown = sum(tokens.count(self.tokenizer.unk_token_id) for tokens in ids)
        count = sum(map(len, ids)) - special
        if count and unknown > MUCH_UNKNOWN * count and self._warns_first("unknown"):
            logger.warning(
                "%.0f %% of the text's tokens are not in the model's vocabulary, and become %s; "
                "choose a model for this language",
                100 * unknown / count,
                self.tokenizer.unk_token,
            )

    def note_cut(self, cut: int, texts: int) -> None:
        """Says once that `cut` of `texts` reach the maximum length, and so may have been cut."""
        if cut and self._warns_first("cut"):
            logger.warning(
                "%s of %s texts reach the encoder's limit of %s tokens; what goes beyond it is cut "
                "off",
                f"{cut:,}",
                f"{texts:,}",
                f"{self.max_length:,}",
            )

    def warn_never(self) -> None:
        """Keeps this encoder from saying what its copies say once, of texts that no user gave."""
        self._warned = {"cut", "unknown"}

    def _warns_first(self, warning: str) -> bool:
        """Whether a warning was not given before; from now on it was."""
        if warning in self._warned:
            return False
        self._warned.add(warning)
        return True

    def tokenize_pairs(
        self, first: Sequence[str], second: Sequence[str], max_length: int | None = None
    ) -> tuple[list[list[int]], list[int]]:
        """The ids of each pair of texts, the longer cut first.

        The second list says how many ids are of the first text (token type 0).
        """
        prepared = self.prompts.prepared("", max_length or self.max_length)
        pairs = prepared.encode(list(zip(first, second, strict=True)))
        ids = [pair.ids for pair in pairs]
        firsts = [len(pair.ids) - sum(pair.type_ids) for pair in pairs]
        return ids, firsts

    def batches(self, lengths: Sequence[int] | np.ndarray, threads: int = 1) -> list[np.ndarray]:
        """Cuts sentences of these lengths into batches of about equally many tokens.

        Shorter sentences come first, and all threads get equally many batches.
        """
        order = np.argsort(lengths, kind="stable")
        tokens = np.cumsum(np.asarray(lengths)[order])
        count = -(-tokens[-1] // self.batch_tokens)
        if count > 1:
            count = -(-count // threads) * threads
        batch_numbers = (tokens - 1) * count // tokens[-1]
        return np.split(order, np.flatnonzero(np.diff(batch_numbers)) + 1)


def _ids_of(sentences: Sequence[str], prepared: Prepared) -> list[list[int]]:
    """The token ids of each sentence, with its prompt and special tokens."""
    encodings = prepared.encode([prepared.before + sentence for sentence in sentences])
    return [encoding.ids for encoding in encodings]


def _first_prompt(prompts: Mapping[str, str | None], names: Sequence[str]) -> str:
    """The first of these prompts that has a text; "" if none has."""
    for name in names:
        prompt = prompts.get(name)
        if prompt:
            return prompt
    return ""

"""The sentence encoder that a user keeps: tokenizer, pretrained model, pooling and heads, in one folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Generator, Tensor, nn
from transformers import PreTrainedTokenizerBase

from isotune.data.packed import Packed
from isotune.encoder.backbone import Backbone
from isotune.encoder.format.modules import Modules, read_modules, write_modules
from isotune.encoder.format.pretrained import load_model, load_tokenizer, local_folder
from isotune.encoder.format.prompt import SENTENCE, Prompts, mask_id, take_suffix
from isotune.encoder.heads import Head, Heads
from isotune.encoder.heads.language import LanguageHead
from isotune.encoder.options import PoolingMode
from isotune.encoder.pooling import Pooling
from isotune.encoder.precision import Precision
from isotune.encoder.stream import Advance, Parts, StreamEncoder, encode_stream
from isotune.encoder.wk_pooling import wk_layers
from isotune.errors import InputError
from isotune.kernels.int8 import is_quantized, quantize
from isotune.views.augmentation import Augmentation

# Size of a batch that is encoded, as bytes of one hidden state of all its tokens. A CPU multiplies larger ones faster,
# up to about here; twice as large ones are slower or faster, by model and measurement. A GPU wants to be busy.
BATCH_BYTES = {"cpu": 2**22, "cuda": 2**25}
# What the weights are loaded as; those of linear layers become integers from there.
DTYPES: Mapping[Precision | None, torch.dtype | None] = MappingProxyType(
    {None: None, "float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.float32}
)
# Tokenizers that know no limit say a number beyond this one.
UNLIMITED = 1_000_000


class Encoder(nn.Module, StreamEncoder):
    """Sentences in, vectors out. Its saved form is a sentence-transformers folder.

    Attributes:
        backbone: the pretrained model on packed sentences.
        pooling: which layers and tokens make the sentence vector.
        heads: what comes after it (Dense, Normalize, Flow), in order.
        tokenizer: transformers' tokenizer.
        max_length: longer sentences are cut to this many tokens, special ones included.
        lowercase: whether text is lowercased before the tokenizer.
        prompt: text put before every sentence, or around it, see `EncoderOptions`.
        prompts: the tokenizer under this and other prompts.
        settings: what the folder says besides to sentence-transformers, such as its other prompts; kept on saving.
        language_head: the masked-LM head, once a method trains one; it is saved in the same file as the model.
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
        """Puts the parts together.

        Raises:
            InputError: they don't fit: the pooling names a layer that the backbone doesn't have, or a head takes
                another dimension than what comes before it gives.
        """
        super().__init__()
        pooling.resolve(backbone.layers)
        self.backbone = backbone
        self.heads = Heads(backbone.dimension, heads)
        self.tokenizer = tokenizer
        self.pooling = replace(pooling, mask_id=mask_id(tokenizer)) if pooling.mode == "mask" else pooling
        self.max_length = max_length
        self.lowercase = lowercase
        self.prompt = prompt
        self.prompts = Prompts(tokenizer, lowercase)
        self.settings = settings or {}
        self.language_head: LanguageHead | None = None

    @classmethod
    @torch.random.fork_rng(devices=[])  # new layers draw random weights before they get their own
    def load(
        cls,
        model: str | Path,
        *,
        pooling: PoolingMode | None = None,
        layers: Sequence[int] | None = None,
        prompt: str | None = None,
        precision: Precision | None = None,
        device: str | torch.device | None = None,
    ) -> Encoder:
        """Loads a sentence-transformers folder, or any pretrained language model of Hugging Face's form.

        Args:
            model: a local folder, or a name on the Hugging Face hub.
            pooling, layers, prompt: what is to differ from the folder's own settings, see `EncoderOptions`. A plain
                language model has none: it gets the mean of its last layer.
            precision: what the pretrained model computes in; with int8, on a CPU, its linear layers do, and the rest in
                float32. The type of the folder's weights if None.
            device: where it computes; a GPU if there is one, if None.

        Raises:
            InputError: the folder lacks a part, its weights don't fit, or it uses something unknown here; or this
                machine can't compute in int8.
        """
        if device is None:
            device = "cuda" if torch.cuda.is_available() and precision != "int8" else "cpu"
        if precision == "int8" and torch.device(device).type != "cpu":
            raise InputError(f"precision int8 on {device}: it is for CPUs; use bfloat16 there")
        own = read_modules(local_folder(model))
        backbone = Backbone(load_model(own.transformer, DTYPES[precision]))
        if precision == "int8":
            quantize(backbone.model)
        tokenizer = load_tokenizer(own.transformer)
        suffix = take_suffix(tokenizer)
        own_prompt = f"{own.prompt}{SENTENCE}{suffix}" if suffix else own.prompt
        if len(tokenizer) > (known := backbone.model.config.vocab_size):
            raise InputError(f"model {model}: its tokenizer has {len(tokenizer)} tokens, its embeddings only {known}")
        limits = [own.max_length, tokenizer.model_max_length, backbone.max_tokens, UNLIMITED]
        max_length = min(limit for limit in limits if limit is not None)
        if layers is None and pooling == "wk" and own.pooling.mode != "wk":
            layers = wk_layers(backbone.layers)
        encoder = cls(
            backbone,
            Pooling(
                pooling or own.pooling.mode,
                own.pooling.layers if layers is None else tuple(layers),
                own.pooling.weights if layers is None else None,
            ),
            own.heads,
            tokenizer,
            512 if max_length == UNLIMITED else max_length,
            lowercase=own.lowercase,
            prompt=own_prompt if prompt is None else prompt,
            settings=own.settings,
        )
        return encoder.to(device).eval()

    @property
    def dimension(self) -> int:
        """Features of a sentence vector."""
        return self.heads.dimension

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def forward(
        self,
        tokens: Packed,
        augmentation: Augmentation | None = None,
        generator: Generator | None = None,
        pooling: Pooling | None = None,
    ) -> Tensor:
        """Vectors of packed sentences, [N, d], in the caller's order.

        Args:
            tokens: the batch.
            augmentation: how the sentences are changed in the embedding layer.
            generator: where the augmentation's random numbers come from; needed with one.
            pooling: takes the place of the encoder's own (a method may train on another than it is used with).
        """
        vectors: Tensor = self.heads(self.pool(tokens, augmentation, generator, pooling))
        return vectors

    def pool(
        self,
        tokens: Packed,
        augmentation: Augmentation | None = None,
        generator: Generator | None = None,
        pooling: Pooling | None = None,
    ) -> Tensor:
        """What the heads get: pooled hidden states [N, d], in the caller's order; arguments as `forward` has them."""
        pooling = pooling or self.pooling
        all_layers = pooling.needs_all_layers(self.backbone.layers)
        states = self.backbone(tokens, augmentation, generator, all_layers)
        return tokens.restore(pooling(states, tokens))

    def tokenize(
        self, sentences: Sequence[str], max_length: int | None = None, prompt: str | None = None
    ) -> list[list[int]]:
        """Token ids of each sentence, prompt and special tokens included.

        Args:
            sentences: the texts.
            max_length: longer ones are cut to this many tokens; the encoder's own if None.
            prompt: takes the place of the encoder's own.

        Raises:
            InputError: the tokenizer makes no token at all of a sentence, or the prompt leaves no room for one.
        """
        max_length = max_length or self.max_length
        before, tokenizer = self.prompts(self.prompt if prompt is None else prompt, max_length)
        if self.lowercase:
            sentences = [sentence.lower() for sentence in sentences]
        encoded = tokenizer(
            [before + sentence for sentence in sentences],
            truncation=True,
            max_length=max_length,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        ids: list[list[int]] = encoded["input_ids"]
        for sentence, tokens in zip(sentences, ids, strict=True):
            if not tokens:
                raise InputError(f"the tokenizer makes no token of {sentence!r:.100}")
        return ids

    def tokenize_pairs(
        self, first: Sequence[str], second: Sequence[str], max_length: int | None = None
    ) -> tuple[list[list[int]], list[int]]:
        """Token ids of each pair as one sequence, and how many of them are of token type 0: the first text's.

        The longer text is cut first.
        """
        if self.lowercase:
            first, second = ([text.lower() for text in texts] for texts in (first, second))
        encoded = self.tokenizer(
            list(first),
            list(second),
            truncation="longest_first",
            max_length=max_length or self.max_length,
            return_attention_mask=False,
            return_token_type_ids=True,
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids, [len(tokens) - sum(types) for tokens, types in zip(ids, encoded["token_type_ids"], strict=True)]

    def encode_parts(
        self, sentences: Iterable[str], *, normalize: bool = False, advance: Advance | None = None
    ) -> Parts:
        """Encodes a stream of any length, part by part; see `StreamEncoder`."""
        training = self.training
        self.eval()
        try:
            yield from encode_stream(self, sentences, normalize, advance)
        finally:
            self.train(training)

    def batches(self, lengths: Sequence[int] | np.ndarray, threads: int = 1) -> list[np.ndarray]:
        """Sentences' indexes, ordered by length and cut into batches of as many tokens, about what suits the device.

        There is one batch, or as many for each thread as for the others, but where too few sentences are.
        """
        order = np.argsort(lengths, kind="stable")
        tokens = np.cumsum(np.asarray(lengths)[order])
        token_bytes = self.backbone.dimension * self.backbone.model.dtype.itemsize
        if is_quantized(self):
            token_bytes *= 2  # what is rounded lies beside what it is made from
        budget = BATCH_BYTES.get(self.device.type, BATCH_BYTES["cuda"]) // token_bytes
        count = -(-tokens[-1] // budget)
        if count > 1:
            count = -(-count // threads) * threads
        bins = (tokens - 1) * count // tokens[-1]
        return np.split(order, np.flatnonzero(np.diff(bins)) + 1)

    def save(self, path: str | Path) -> None:
        """Writes a sentence-transformers folder; `SentenceTransformer(path)` gives the same vectors.

        Raises:
            InputError: the folder exists already, or it can't be written; or the weights are in int8.
        """
        path = Path(path)
        if is_quantized(self):
            raise InputError(f"{path}: an encoder in int8 can't be saved; save it as loaded without a precision")
        try:
            path.mkdir(parents=True)
        except FileExistsError as error:
            raise InputError(f"{path}: it exists already; an encoder is saved into a new folder") from error
        try:
            write_modules(
                Modules(
                    path,
                    self.pooling,
                    list(self.heads),
                    max_length=self.max_length,
                    lowercase=self.lowercase,
                    prompt=self.prompt,
                    settings=self.settings,
                ),
                self.language_head.language_model if self.language_head else self.backbone.model,
                self.tokenizer,
            )
        except (SafetensorError, OSError) as error:
            raise InputError(f"{path}: it can't be written ({error})") from error

"""The sentence encoder that a user keeps: tokenizer, pretrained model, pooling and heads, in one folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Generator, Tensor, nn
from transformers import PreTrainedTokenizerBase

from isotune.data.packed import Packed, pack
from isotune.encoder.backbone import Backbone
from isotune.encoder.folder import load_model, load_tokenizer, local_folder
from isotune.encoder.heads import Dense
from isotune.encoder.modules import Modules, read_modules, write_modules
from isotune.encoder.options import PoolingMode
from isotune.encoder.pooling import Pooling
from isotune.errors import InputError
from isotune.views.augmentation import Augmentation

# Sentences are tokenised and sorted by length this many at a time, which bounds the memory of a long input.
CHUNK_SENTENCES = 65_536
# Small batches stay in a CPU's caches; a GPU wants enough tokens to be busy.
BATCH_TOKENS = {"cpu": 1024, "cuda": 32_768}
# Tokenizers that know no limit say a number beyond this one.
UNLIMITED = 1_000_000


class Encoder(nn.Module):
    """Sentences in, vectors out. Its saved form is a sentence-transformers folder.

    Attributes:
        backbone: the pretrained model on packed sentences.
        pooling: which layers and tokens make the sentence vector.
        heads: what comes after it (Dense, Normalize), in order.
        tokenizer: transformers' tokenizer.
        dimension: features of a sentence vector.
        max_length: longer sentences are cut to this many tokens, special ones included.
        lowercase: whether text is lowercased before the tokenizer.
        prompt: text put before every sentence.
        settings: what the folder says besides to sentence-transformers, such as its other prompts; kept on saving.
    """

    def __init__(
        self,
        backbone: Backbone,
        pooling: Pooling,
        heads: Sequence[nn.Module],
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
        dimension = backbone.dimension
        for head in heads:
            if isinstance(head, Dense):
                if head.linear.in_features != dimension:
                    raise InputError(f"a Dense head takes {head.linear.in_features} features and gets {dimension}")
                dimension = head.linear.out_features
        self.backbone = backbone
        self.pooling = pooling
        self.heads = nn.Sequential(*heads)
        self.tokenizer = tokenizer
        self.dimension = dimension
        self.max_length = max_length
        self.lowercase = lowercase
        self.prompt = prompt
        self.settings = settings or {}

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        pooling: PoolingMode | None = None,
        layers: Sequence[int] | None = None,
        prompt: str | None = None,
        dtype: torch.dtype | None = None,
        device: str | torch.device | None = None,
    ) -> Encoder:
        """Loads a sentence-transformers folder, or any pretrained language model of Hugging Face's form.

        Args:
            model: a local folder, or a name on the Hugging Face hub.
            pooling, layers, prompt: what is to differ from the folder's own settings, see `EncoderOptions`. A plain
                language model has none: it gets the mean of its last layer.
            dtype: type of the pretrained model's weights; as the folder says if None.
            device: where it computes; a GPU if there is one, if None.

        Raises:
            InputError: the folder lacks a part, its weights don't fit, or it uses something unknown here.
        """
        own = read_modules(local_folder(model))
        backbone = Backbone(load_model(own.transformer, dtype))
        tokenizer = load_tokenizer(own.transformer)
        if len(tokenizer) > (known := backbone.model.config.vocab_size):
            raise InputError(f"model {model}: its tokenizer has {len(tokenizer)} tokens, its embeddings only {known}")
        limits = [own.max_length, tokenizer.model_max_length, backbone.max_tokens, UNLIMITED]
        max_length = min(limit for limit in limits if limit is not None)
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
            prompt=own.prompt if prompt is None else prompt,
            settings=own.settings,
        )
        encoder.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        return encoder.eval()

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
        pooling = pooling or self.pooling
        all_layers = pooling.needs_all_layers(self.backbone.layers)
        states = self.backbone(tokens, augmentation, generator, all_layers)
        vectors: Tensor = self.heads(pooling(states, tokens))
        return tokens.restore(vectors)

    def tokenize(self, sentences: Sequence[str], max_length: int | None = None) -> list[list[int]]:
        """Token ids of each sentence, prompt and special tokens included, cut to `max_length` (the encoder's own).

        Raises:
            InputError: the tokenizer makes no token at all of a sentence.
        """
        if self.prompt:
            sentences = [self.prompt + sentence for sentence in sentences]
        if self.lowercase:
            sentences = [sentence.lower() for sentence in sentences]
        encoded = self.tokenizer(
            list(sentences),
            truncation=True,
            max_length=max_length or self.max_length,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        ids: list[list[int]] = encoded["input_ids"]
        for sentence, tokens in zip(sentences, ids, strict=True):
            if not tokens:
                raise InputError(f"the tokenizer makes no token of {sentence!r:.100}")
        return ids

    @torch.no_grad()
    def encode(
        self, sentences: str | Iterable[str], *, normalize: bool = False, show_progress: bool = False
    ) -> np.ndarray:
        """Sentence vectors.

        Args:
            sentences: one sentence, or several.
            normalize: scale each vector to length 1.
            show_progress: a progress bar on standard error, where that is a terminal.

        Returns:
            float32 [d] for one sentence, [N, d] for several, in their order.

        Raises:
            InputError: one of them is not a string.
        """
        if isinstance(sentences, str):
            vector: np.ndarray = self.encode([sentences], normalize=normalize)[0]
            return vector
        sentences = list(sentences)
        for i, sentence in enumerate(sentences):
            if not isinstance(sentence, str):
                raise InputError(f"sentence {i} is {type(sentence).__name__}, not a string")
        from rich.console import Console
        from rich.progress import Progress

        vectors = np.empty((len(sentences), self.dimension), dtype=np.float32)
        console = Console(stderr=True)
        bar = Progress(console=console, disable=not (show_progress and console.is_terminal))
        task = bar.add_task("encoding", total=len(sentences))
        training = self.training
        self.eval()
        bar.start()
        try:
            for start in range(0, len(sentences), CHUNK_SENTENCES):
                ids = self.tokenize(sentences[start : start + CHUNK_SENTENCES])
                for batch in self._batches([len(sentence) for sentence in ids]):
                    tokens = pack([ids[i] for i in batch]).to(self.device)
                    result = self(tokens)
                    if normalize:
                        result = nn.functional.normalize(result, dim=-1)
                    vectors[start + batch] = result.float().cpu().numpy()
                    bar.advance(task, len(batch))
        finally:
            bar.stop()
            self.train(training)
        return vectors

    def _batches(self, lengths: list[int]) -> list[np.ndarray]:
        """Sentences' indexes, ordered by length and cut where a batch's tokens would pass the device's budget."""
        order = np.argsort(lengths, kind="stable")
        budget = BATCH_TOKENS.get(self.device.type, BATCH_TOKENS["cuda"])
        bins = np.cumsum(np.asarray(lengths)[order]) // budget
        return np.split(order, np.flatnonzero(np.diff(bins)) + 1)

    def save(self, path: str | Path) -> None:
        """Writes a sentence-transformers folder; `SentenceTransformer(path)` gives the same vectors.

        Raises:
            InputError: the folder exists already, or it can't be written.
        """
        path = Path(path)
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
                self.backbone.model,
                self.tokenizer,
            )
        except (SafetensorError, OSError) as error:
            raise InputError(f"{path}: it can't be written ({error})") from error

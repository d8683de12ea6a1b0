"""The sentence encoder that a user keeps: tokenizer, pretrained model, pooling and heads, in one folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Generator, Tensor, nn
from transformers import PreTrainedTokenizerBase

from isotune.data.packed import Packed, pack
from isotune.encoder import folder
from isotune.encoder.backbone import Backbone
from isotune.encoder.heads import Dense
from isotune.encoder.options import EncoderOptions
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
        max_length: longer sentences are cut to this many tokens, special ones included.
        prompt: text put before every sentence.
    """

    def __init__(
        self,
        backbone: Backbone,
        pooling: Pooling,
        heads: Sequence[nn.Module],
        tokenizer: PreTrainedTokenizerBase,
        max_length: int,
        prompt: str = "",
    ) -> None:
        super().__init__()
        pooling.resolve(backbone.layers)
        self.backbone = backbone
        self.pooling = pooling
        self.heads = nn.Sequential(*heads)
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.prompt = prompt

    @classmethod
    def load(
        cls,
        model: str | Path,
        options: EncoderOptions | None = None,
        *,
        dtype: torch.dtype | None = None,
        device: str | torch.device | None = None,
    ) -> Encoder:
        """Loads a sentence-transformers folder, or any pretrained language model of Hugging Face's form.

        Args:
            model: a local folder, or a name on the Hugging Face hub.
            options: what is to differ from the folder's own settings. A plain language model has none: it gets the
                mean of its last layer.
            dtype: type of the pretrained model's weights; as the folder says if None.
            device: where it computes; a GPU if there is one, if None.

        Raises:
            InputError: the folder lacks a part, its weights don't fit, or it uses something unknown here.
        """
        options = options or EncoderOptions()
        own = folder.read_modules(folder.local_folder(model))
        backbone = Backbone(folder.load_model(own.transformer, dtype))
        tokenizer = folder.load_tokenizer(own.transformer, own.lowercase)
        if len(tokenizer) > (known := backbone.model.config.vocab_size):
            raise InputError(f"model {model}: its tokenizer has {len(tokenizer)} tokens, its embeddings only {known}")
        limits = [own.max_length, tokenizer.model_max_length, backbone.max_tokens, UNLIMITED]
        max_length = min(limit for limit in limits if limit is not None)
        encoder = cls(
            backbone,
            Pooling(
                options.pooling or own.pooling.mode,
                options.layers or own.pooling.layers,
                None if options.layers else own.pooling.weights,
            ),
            own.heads,
            tokenizer,
            512 if max_length == UNLIMITED else max_length,
            own.prompt if options.prompt is None else options.prompt,
        )
        encoder.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        return encoder.eval()

    @property
    def dimension(self) -> int:
        """Features of a sentence vector."""
        sizes = [head.linear.out_features for head in self.heads if isinstance(head, Dense)]
        return int(sizes[-1]) if sizes else self.backbone.dimension

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
        """Token ids of each sentence, prompt and special tokens included, cut to `max_length` (the encoder's own)."""
        if self.prompt:
            sentences = [self.prompt + sentence for sentence in sentences]
        encoded = self.tokenizer(
            list(sentences),
            truncation=True,
            max_length=max_length or self.max_length,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    @torch.no_grad()
    def encode(
        self, sentences: str | Sequence[str], *, normalize: bool = False, show_progress: bool = False
    ) -> np.ndarray:
        """Sentence vectors.

        Args:
            sentences: one sentence, or several.
            normalize: scale each vector to length 1.
            show_progress: a progress bar on standard error.

        Returns:
            float32 [d] for one sentence, [N, d] for a sequence, in its order.

        Raises:
            InputError: something in the sequence is not a string.
        """
        if isinstance(sentences, str):
            vector: np.ndarray = self.encode([sentences], normalize=normalize)[0]
            return vector
        for i, sentence in enumerate(sentences):
            if not isinstance(sentence, str):
                raise InputError(f"sentence {i} is {type(sentence).__name__}, not a string")
        from rich.console import Console
        from rich.progress import track

        vectors = np.empty((len(sentences), self.dimension), dtype=np.float32)
        starts = track(
            range(0, len(sentences), CHUNK_SENTENCES),
            "encoding",
            console=Console(stderr=True),
            disable=not show_progress,
        )
        training = self.training
        self.eval()
        try:
            for start in starts:
                ids = self.tokenize(sentences[start : start + CHUNK_SENTENCES])
                for batch in self._batches([len(sentence) for sentence in ids]):
                    tokens = pack([ids[i] for i in batch]).to(self.device)
                    result = self(tokens)
                    if normalize:
                        result = nn.functional.normalize(result, dim=-1)
                    vectors[start + batch] = result.float().cpu().numpy()
        finally:
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
            InputError: the folder exists already.
        """
        path = Path(path)
        try:
            path.mkdir(parents=True)
        except FileExistsError as error:
            raise InputError(f"{path}: it exists already; an encoder is saved into a new folder") from error
        folder.write(
            path, self.backbone.model, self.tokenizer, self.pooling, list(self.heads), self.max_length, self.prompt
        )

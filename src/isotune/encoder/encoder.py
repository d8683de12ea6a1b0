"""The sentence encoder that a user keeps: tokenizer, pretrained model, pooling and heads, in one folder."""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Any, Self, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError
from torch.nn.functional import normalize

from isotune.encoder.anchors import ANCHORS, TEXTS, Anchors, versions
from isotune.encoder.backbone import Backbone
from isotune.encoder.calibration import CALIBRATION, Calibration
from isotune.encoder.fingerprint import fingerprint
from isotune.encoder.format.modules import read_modules, write_modules
from isotune.encoder.format.pretrained import (
    check_files,
    load_model,
    load_tokenizer,
    local_folder,
    take_pooler,
)
from isotune.encoder.format.prompt import MASK, SENTENCE, take_suffix
from isotune.encoder.model import SentenceModel
from isotune.encoder.options import EncoderOptions
from isotune.encoder.pooling import Pooling, change_pooling
from isotune.encoder.stream import Advance, Parts, encode_stream, progress, several
from isotune.errors import InputError, UselessVectors, invalid, unknown
from isotune.files import CHECKSUMS, checksums, verify_checksums, written
from isotune.kernels import Precision
from isotune.kernels.device import default_device
from isotune.kernels.precision import resolved, warn_of_bfloat16
from isotune.kernels.threads import drawing

logger = logging.getLogger(__name__)
B = TypeVar("B", bound=BaseModel)

# Tokenizers without a limit give a larger number than this as their limit.
UNLIMITED = 1_000_000
DEFAULT_MAX_LENGTH = 512  # tokens, where neither the folder nor the model has a limit

INSTEAD = {  # of the arguments that sentence-transformers' `encode` has
    "batch_size": "leave it out, batches are cut by their tokens",
    "convert_to_numpy": "leave it out, vectors are a numpy array",
    "convert_to_tensor": "use torch.from_numpy(encoder.encode(sentences))",
    "normalize_embeddings": "use normalize",
    "prompt_name": "use encode_query or encode_document",
    "show_progress_bar": "use show_progress",
    **{
        name: f"use isotune.Encoder.load(model, {name}=...)"
        for name in ("device", "precision", "prompt")
    },
}
NO_PROMPTS: dict[str, Any] = {
    "prompts": {},
    "default_prompt_name": None,
}  # where one prompt is that of all texts


class Encoder(SentenceModel):
    """Turns sentences into vectors. An encoder is saved as a sentence-transformers folder.

    `encode` is for use: sentences in, a numpy array out. Training calls the encoder on packed sentences instead
    (`forward`).
    """

    saved_pooling: Pooling  # that of the folder; loaded encoders alone have it
    _calibration: Calibration | None = None
    _anchors: Anchors | None = None

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        pooling: str | None = None,
        layers: Sequence[int] | None = None,
        prompt: str | None = None,
        precision: Precision | None = None,
        device: str | torch.device | None = None,
    ) -> Self:
        """Loads a sentence-transformers folder, or any pretrained language model in Hugging Face's format.

        Args:
            model: a local folder, a name on the Hugging Face hub, or "bert-tiny" for the bundled model.
            pooling: replaces the folder's setting, as `layers` and `prompt` do; `EncoderOptions` has the values. The
                default for a plain language model, which has no such settings, is the mean of its last layer. A
                pooling that is given weighs all tokens equally.
            layers: the hidden states that are pooled, 0 for the embeddings.
            prompt: the text around each sentence.
            precision: what the pretrained model computes in; None for the type of the saved weights. "auto" is that
                type too, but bfloat16 on GPUs that have it.
            device: where the encoder computes; None for the device that `ISOTUNE_DEVICE` names, or else a GPU of
                Nvidia's or AMD's, or else the CPU.

        Raises:
            InputError: the folder lacks a part or has a damaged file, its weights don't fit, it uses a module that is
                not supported, or it has no pooler and `pooling` wants one; or this machine has no such device.
        """
        if not isinstance(model, str | Path):
            raise InputError(
                f"model {model!r:.60}: a folder or a name is needed, not a {type(model).__name__}"
            )
        try:
            EncoderOptions(pooling=pooling, layers=layers, prompt=prompt)
            torch.empty(0, device=device)
        except ValidationError as error:
            raise invalid(f"model {model}", error) from error
        except (AssertionError, RuntimeError, TypeError) as error:
            raise InputError(f"device {device!r}: {' '.join(str(error).split())[:200]}") from error
        if precision not in (None, *get_args(Precision)):
            raise unknown("precision", str(precision), get_args(Precision))
        if device is None:
            device = default_device()
        if precision == "auto" and (precision := resolved(precision, torch.device(device).type)):
            logger.warning(
                "%s is computed in bfloat16; precision float32 is exact, and slower", model
            )
        if precision == "bfloat16" and (warning := warn_of_bfloat16(torch.device(device).type)):
            logger.warning(warning)
        folder = local_folder(model)
        check_files(folder)
        verified = verify_checksums(folder)
        with drawing():  # a new layer draws random weights before it gets those of the folder
            saved = read_modules(folder)
            backbone = Backbone(
                load_model(saved.transformer, precision and getattr(torch, precision), verified)
            )
            pooler = [take_pooler(backbone.model)] if pooling == "pooler" else []
        if pooler:
            pooling, layers = "cls", layers or (-1,)
        tokenizer = load_tokenizer(saved.transformer)
        if len(tokenizer) > (known := backbone.model.config.vocab_size):
            raise InputError(
                f"model {model}: its tokenizer has {len(tokenizer)} tokens, its embeddings only {known}"
            )
        suffix = take_suffix(tokenizer)
        before = saved.prompt.replace(
            tokenizer.mask_token or MASK, MASK
        )  # which lowercasing leaves as it is
        saved_prompt = f"{before}{SENTENCE}{suffix}" if suffix else before
        said = saved.max_length, tokenizer.model_max_length, backbone.max_tokens, UNLIMITED
        limits = [limit for limit in said if limit is not None]
        if strange := [
            limit
            for limit in limits
            if not isinstance(limit, int | float) or limit < 1 or limit % 1
        ]:
            raise InputError(
                f"model {model}: its maximum length is {strange[0]!r}; it has to be a number of tokens"
            )
        max_length = int(min(limits))
        encoder = cls(
            backbone,
            change_pooling(saved.pooling, pooling, layers, backbone.layers),
            [*pooler, *saved.heads],
            tokenizer,
            DEFAULT_MAX_LENGTH if max_length == UNLIMITED else max_length,
            lowercase=saved.lowercase,
            prompt=saved_prompt if prompt is None else prompt,
            settings=saved.settings if prompt is None else {**saved.settings, **NO_PROMPTS},
        )
        if pooling is None and saved.token_weights is not None:
            if (count := len(saved.token_weights)) < len(tokenizer):
                raise InputError(
                    f"model {model}: its WordWeights have {count} tokens, its tokenizer {len(tokenizer)}"
                )
            encoder.token_weights = torch.ones(known)
            encoder.token_weights[:count] = saved.token_weights[:known]
        encoder.calibration = _read(Calibration, folder / CALIBRATION)
        encoder.saved_pooling = saved.pooling
        encoder.to(device).eval()
        as_saved = (pooling, layers, prompt) == (None, None, None)
        encoder._anchors = _read(Anchors, folder / ANCHORS) if as_saved else None
        if changed := encoder.changed():
            logger.warning("encoder %s: %s", folder, changed)
        return encoder

    def fingerprint(self) -> str:
        """A hash of everything that decides the vectors, the same in every precision: 20 hexadecimal digits."""
        return fingerprint(self)

    def changed(self, *, vectors: bool = False) -> str | None:
        """What differs from the encoder as it was saved, in a line; "" if nothing does, None if nothing is known.

        The token ids of eight texts are compared. Their vectors are compared too if `vectors`, or if torch,
        transformers or tokenizers have another version than then. Loading warns of what differs.
        """
        if (saved := self._anchors) is None:
            return None
        return saved.changed(self._give(saved.texts, vectors or saved.versions != versions()))

    def _give(self, texts: tuple[str, ...], vectors: bool) -> Anchors:
        silent = copy(self)
        silent.seen = Counter(cut=1, unknown=1)  # says nothing of these texts
        made: list[list[float]] = []
        with suppress(UselessVectors):  # of an encoder that overflows, which `encode` refuses
            made = silent.encode(texts).astype(float).round(6).tolist() if vectors else []
        dtype = str(self.backbone.model.dtype).removeprefix("torch.")
        return Anchors(texts=texts, ids=silent.tokenize(texts), vectors=made, dtype=dtype)

    @property
    def calibration(self) -> Calibration | None:
        """What the encoder's cosines mean, from `isotune.calibrate`. None if it was made for another fingerprint.

        If there is one, every weight is read for that, so this is not for a loop.
        """
        kept = self._calibration
        return kept if kept and kept.fingerprint == self.fingerprint() else None

    @calibration.setter
    def calibration(self, calibration: Calibration | None) -> None:
        self._calibration = calibration

    def encode_parts(
        self, sentences: Iterable[str], *, normalize: bool = False, advance: Advance | None = None
    ) -> Parts:
        """Encodes a stream of any length, part by part; memory does not grow with the stream.

        `normalize` scales each vector to length 1; `advance` is told of progress within a part.

        Raises:
            InputError: an element of the stream is not a string.
        """
        return encode_stream(self, sentences, normalize, advance)

    def encode(
        self,
        sentences: str | Iterable[str],
        *,
        normalize: bool = False,
        show_progress: bool = False,
        **others: object,
    ) -> NDArray[np.float32]:
        """Encodes sentences: returns float32 [d] for one sentence, [N, d] for several, in their order.

        `normalize` and errors are as in `encode_parts`; `show_progress` shows a bar on standard error, if that is a
        terminal. For another argument of sentence-transformers, an InputError says what to use instead.
        """
        for name in others:
            raise InputError(
                f"encode takes no {name}: {INSTEAD.get(name, 'it takes normalize and show_progress')}"
            )
        if isinstance(sentences, str):
            return self.encode([sentences], normalize=normalize)[0]
        sentences = list(several(sentences))
        vectors = np.empty((len(sentences), self.dimension), np.float32)
        done = 0
        with progress(len(sentences), show_progress) as advance:
            for _, part in self.encode_parts(sentences, normalize=normalize, advance=advance):
                vectors[done : done + len(part)] = part
                done += len(part)
        return vectors

    def encode_query(self, sentences: str | Iterable[str], **options: Any) -> NDArray[np.float32]:
        """What `encode` returns, with the folder's prompt for queries if it has one."""
        return self.prompted("query").encode(sentences, **options)

    def encode_document(
        self, sentences: str | Iterable[str], **options: Any
    ) -> NDArray[np.float32]:
        """What `encode` returns, with the folder's prompt for documents if it has one."""
        return self.prompted("document").encode(sentences, **options)

    @staticmethod
    def similarity(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float32]:
        """The cosines [N, M] of vectors [N, d] and [M, d]."""
        one, other = (
            normalize(torch.from_numpy(np.atleast_2d(vectors)), dim=-1)
            for vectors in (first, second)
        )
        return (one @ other.T).numpy()

    def save(self, path: str | Path) -> None:
        """Writes a sentence-transformers folder, whole or not at all.

        `SentenceTransformer(path)` gives the same vectors.

        Raises:
            InputError: the folder exists already or can't be written.
        """
        with written(Path(path), new=True) as folder:
            folder.mkdir()
            write_modules(self, folder)
            if calibration := self.calibration:
                calibration.save(folder)
            (folder / ANCHORS).write_text(
                self._give(TEXTS, vectors=True).model_dump_json() + "\n", "utf-8"
            )
            names = sorted(
                file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()
            )
            (folder / CHECKSUMS).write_text(checksums(folder, names), "utf-8")


def _read(kind: type[B], path: Path) -> B | None:
    """What a file of an encoder's folder says; None if there is none, or if it is of another program."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None

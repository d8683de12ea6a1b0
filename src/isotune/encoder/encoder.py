"""The sentence encoder that a user keeps.

It has a tokenizer, a pretrained model, pooling and heads, and is saved in one folder.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ValidationError
from torch.nn.functional import normalize
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from isotune.encoder.backbone import Backbone
from isotune.encoder.calibration import CALIBRATION, Calibration
from isotune.encoder.classifier_head import ClassifierHead, head_folder
from isotune.encoder.fingerprint import fingerprint
from isotune.encoder.format.modules import Modules, read_modules
from isotune.encoder.format.pretrained import (
    check_files,
    load_model,
    load_tokenizer,
    local_folder,
    outline_model,
    take_pooler,
)
from isotune.encoder.format.prompt import MASK, SENTENCE, take_suffix
from isotune.encoder.heads import TRUNCATE_DIM, Head, cut
from isotune.encoder.model import SentenceModel
from isotune.encoder.options import EncoderOptions
from isotune.encoder.pooling import Pooling, change_pooling
from isotune.encoder.reference_outputs import REFERENCE_OUTPUTS, TEXTS, ReferenceOutputs, versions
from isotune.encoder.saving import let_others_read, write_modules
from isotune.encoder.shared_space import SHARED_SPACE, SharedSpace
from isotune.encoder.stream import Advance, Parts, encode_stream, progress, several
from isotune.errors import InputError, UselessVectors, as_input_error, invalid, unknown
from isotune.files import CHECKSUMS, atomic_write, checksums, verify_checksums
from isotune.kernels import Precision
from isotune.kernels.device import default_device
from isotune.kernels.precision import resolved, warn_of_bfloat16
from isotune.kernels.threads import seeded

logger = logging.getLogger(__name__)
B = TypeVar("B", bound=BaseModel)

# Tokenizers without a limit give a larger number than this as their limit.
UNLIMITED = 1_000_000
# Tokens of the longest sentence, where neither the folder nor the model has a limit.
DEFAULT_MAX_LENGTH = 512

# What to use instead of the arguments that sentence-transformers' `encode` has.
INSTEAD = {
    "batch_size": "leave it out, batches are cut by their tokens",
    "convert_to_numpy": "leave it out, vectors are a numpy array",
    "convert_to_tensor": "use torch.from_numpy(encoder.encode(sentences))",
    "normalize_embeddings": "use normalize",
    "prompt_name": "use encode_query or encode_document",
    "show_progress_bar": "use show_progress",
    "device": "use isotune.Encoder.load(model, device=...)",
    "precision": "use isotune.Encoder.load(model, precision=...)",
    "prompt": "use isotune.Encoder.load(model, prompt=...)",
    "truncate_dim": "use isotune.Encoder.load(model, dimensions=...)",
}
# The settings of a folder in which one prompt is that of all texts.
NO_PROMPTS: dict[str, Any] = {"prompts": {}, "default_prompt_name": None}
# What an encoder is saved with, unless it was trained with a classifier.
NO_CLASSIFIERS: Mapping[str, ClassifierHead] = {}


class Encoder(SentenceModel):
    """Turns sentences into vectors. An encoder is saved as a sentence-transformers folder.

    `Encoder.load` makes one. `encode` is for use: sentences in, a numpy array out. Training calls
    `pool` and the heads on packed sentences instead (engine/forward.py).
    """

    saved_pooling: Pooling
    """The pooling of the folder; loaded encoders alone have it."""
    _calibration: Calibration | None = None
    _shared_space: SharedSpace | None = None
    _reference: ReferenceOutputs | None = None

    def __new__(cls, *parts: object, **options: object) -> Self:
        """Refuses the name of a model, which another library's constructor takes."""
        first = options.get("model")
        if parts:
            first = parts[0]
        if isinstance(first, str | Path):
            name = repr(str(first))
            raise InputError(
                f"Encoder({name}): the constructor takes the parts of an encoder; write "
                f"Encoder.load({name})"
            )
        return super().__new__(cls)

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
        dimensions: int | None = None,
    ) -> Self:
        """Loads a sentence-transformers folder, or any language model in Hugging Face's format.

        Args:
            model: a local folder, a name on the Hugging Face hub, or "bert-tiny" for the bundled
                model.
            pooling: replaces the folder's setting, as `layers` and `prompt` do; `EncoderOptions`
                has the values. The default for a plain language model, which has no such settings,
                is the mean of its last layer. A pooling that is given weighs all tokens equally.
            layers: the hidden states that are pooled, 0 for the embeddings.
            prompt: the text around each sentence.
            precision: what the pretrained model computes in; None for the type of the saved
                weights. "auto" is that type too, but bfloat16 on GPUs that have it.
            device: where the encoder computes; None for the device that `ISOTUNE_DEVICE` names, or
                else a GPU of Nvidia's or AMD's, or else the CPU.
            dimensions: how many features of a vector to keep, the first ones; None for as many as
                the folder says (its `truncate_dim`), or else all.

        Raises:
            InputError: the folder lacks a part or has a damaged file, its weights don't fit, it
                uses a module that is not supported, or it has no pooler and `pooling` wants one; or
                its vectors have fewer features than `dimensions`; or this machine has no such
                device.
        """
        options = _checked_options(model, pooling, layers, prompt)
        device = _checked_device(device)
        dtype = _dtype(model, precision, device)
        folder = local_folder(model)
        check_files(folder)
        verified = verify_checksums(folder)
        load = partial(load_model, dtype=dtype, verified=verified)
        encoder = cls._joined(_Parts.read(model, folder, options, load))
        if dimensions is not None:
            encoder.heads = cut(encoder.heads, dimensions)
        encoder.calibration = _read(Calibration, folder / CALIBRATION)
        encoder._shared_space = _read(SharedSpace, folder / SHARED_SPACE)
        encoder.to(device).eval()
        if options == EncoderOptions() and dimensions is None:
            encoder._reference = _read(ReferenceOutputs, folder / REFERENCE_OUTPUTS)
        changed = encoder.changed()
        if changed:
            logger.warning("encoder %s: %s", folder, changed)
        return encoder

    @classmethod
    def outline(cls, model: str | Path) -> Self:
        """An encoder that knows what its folder says, and whose language model has no weights.

        The argument is that of `load`. Errors are those of `load`, but for what the values of the
        weights tell.
        """
        options = _checked_options(model, None, None, None)
        folder = local_folder(model, weights=False)
        check_files(folder)
        return cls._joined(_Parts.read(model, folder, options, outline_model))

    @classmethod
    def _joined(cls, parts: "_Parts") -> Self:
        """An encoder of these parts."""
        encoder = cls(
            parts.backbone,
            parts.pooling,
            parts.heads,
            parts.tokenizer,
            parts.max_length,
            lowercase=parts.saved.lowercase,
            prompt=parts.prompt,
            settings=parts.settings,
        )
        encoder.token_weights = parts.token_weights
        encoder.saved_pooling = parts.saved.pooling
        kept = parts.saved.settings.get(TRUNCATE_DIM)
        if kept is not None:
            # sentence-transformers takes a number above that of the features, too.
            encoder.heads = cut(encoder.heads, min(kept, encoder.dimension))
        return encoder

    def cut_to(self, dimensions: int) -> Self:
        """An encoder of the same weights whose vectors are the first features of this one's.

        Raises:
            InputError: the vectors have fewer features.
        """
        other = self.with_parts(heads=cut(self.heads, dimensions))
        # The reference outputs are those of the encoder as it was saved.
        other._reference = None
        return other

    def fingerprint(self) -> str:
        """A hash of everything that decides the vectors: 20 hexadecimal digits.

        It is the same in every precision.
        """
        return fingerprint(self)

    def changed(self, *, vectors: bool = False) -> str | None:
        """What differs from the encoder as it was saved, in a line.

        The line is "" if nothing differs, and None if nothing is known. The token ids of eight
        texts are compared. Their vectors are compared too if `vectors`, or if torch, transformers
        or tokenizers have another version than then. Loading warns of what differs.
        """
        saved = self._reference
        if saved is None:
            return None
        other_versions = saved.versions != versions()
        return saved.changed(self._give(saved.texts, vectors or other_versions))

    def _give(self, texts: tuple[str, ...], with_vectors: bool) -> ReferenceOutputs:
        """The ids that the encoder gives for these texts, and the vectors if they are asked for."""
        silent = copy(self)
        silent.warn_never()
        vectors: list[list[float]] = []
        if with_vectors:
            # An encoder that overflows has no vectors, which `encode` refuses.
            with suppress(UselessVectors):
                vectors = silent.encode(texts).astype(float).round(6).tolist()
        dtype = str(self.backbone.model.dtype).removeprefix("torch.")
        return ReferenceOutputs(
            texts=texts, ids=silent.tokenize(texts), vectors=vectors, dtype=dtype
        )

    @property
    def calibration(self) -> Calibration | None:
        """What the encoder's cosines mean, from `isotune.calibrate`.

        It is None if the calibration was made for another fingerprint. Every weight is read to
        compare them, so this is not for a loop.
        """
        calibration = self._calibration
        if calibration is None or calibration.fingerprint != self.fingerprint():
            return None
        return calibration

    @calibration.setter
    def calibration(self, calibration: Calibration | None) -> None:
        self._calibration = calibration

    @property
    def space_of(self) -> str | None:
        """The fingerprint of the encoder in whose space the vectors are.

        A query by this encoder finds documents by that one: `DistilOptions.match`. It is None if
        the encoder was not trained for this, or was changed afterwards. Every weight is read to
        find out, so this is not for a loop.
        """
        space = self._shared_space
        if space is None or space.fingerprint != self.fingerprint():
            return None
        return space.of

    @space_of.setter
    def space_of(self, other: str) -> None:
        self._shared_space = SharedSpace(of=other, fingerprint=self.fingerprint())

    def encode_parts(
        self, sentences: Iterable[str], *, normalize: bool = False, advance: Advance | None = None
    ) -> Parts:
        """Encodes a stream of any length, part by part; memory does not grow with the stream.

        `normalize` scales each vector to length 1; `advance` is told of progress within a part.

        Raises:
            InputError: an element of the stream is not a string.
        """
        for part in encode_stream(self, sentences, normalize, advance):
            yield part.sentences, part.vectors

    def encode(
        self,
        sentences: str | Iterable[str],
        *,
        normalize: bool = False,
        show_progress: bool = False,
        **others: object,
    ) -> NDArray[np.float32]:
        """Encodes sentences, in their order.

        Returns float32 [d] for one sentence, [N, d] for several. `normalize` and errors are as in
        `encode_parts`; `show_progress` shows a bar on standard error, if that is a terminal. For
        another argument of sentence-transformers, an InputError says what to use instead.
        """
        for name in others:
            instead = INSTEAD.get(name, "it takes normalize and show_progress")
            raise InputError(f"encode takes no {name}: {instead}")
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
    def similarity(first: ArrayLike, second: ArrayLike) -> NDArray[np.float32]:
        """The cosines [N, M] of vectors [N, d] and [M, d].

        Raises:
            InputError: there are sentences in place of vectors, or the vectors have other sizes.
        """
        one = _unit_vectors(first)
        other = _unit_vectors(second)
        if one.shape[1] != other.shape[1]:
            raise InputError(
                f"similarity of vectors with {one.shape[1]} and with {other.shape[1]} features: "
                "give vectors of one encoder"
            )
        dtype = torch.promote_types(one.dtype, other.dtype)
        return (one.to(dtype) @ other.to(dtype).T).numpy()

    def save(
        self, path: str | Path, classifiers: Mapping[str, ClassifierHead] = NO_CLASSIFIERS
    ) -> None:
        """Writes a sentence-transformers folder, whole or not at all.

        `SentenceTransformer(path)` gives the same vectors. `classifiers` are heads of classifiers
        by the names of their tasks; a single head has the name "".

        Raises:
            InputError: the folder exists already or can't be written.
        """
        with atomic_write(Path(path), new=True) as folder:
            folder.mkdir()
            write_modules(self, folder)
            for task, head in classifiers.items():
                head.save(folder / head_folder(task))
            let_others_read(folder)
            self._save_what_is_known(folder)
            reference = self._give(TEXTS, with_vectors=True)
            (folder / REFERENCE_OUTPUTS).write_text(
                reference.model_dump_json() + "\n", "utf-8", newline="\n"
            )
            names = sorted(
                file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()
            )
            (folder / CHECKSUMS).write_text(checksums(folder, names), "utf-8", newline="\n")

    def _save_what_is_known(self, folder: Path) -> None:
        """Writes the calibration and the shared space, if they are those of these weights."""
        calibration = self._calibration
        space = self._shared_space
        if not calibration and not space:
            return
        # Every weight is read, so once for both.
        fingerprint = self.fingerprint()
        if calibration and calibration.fingerprint == fingerprint:
            calibration.save(folder)
        if space and space.fingerprint == fingerprint:
            space.write(folder)


@dataclass(frozen=True)
class _Parts:
    """The parts of an encoder, as `Encoder.load` reads them from a folder and changes them."""

    saved: Modules
    backbone: Backbone
    pooling: Pooling
    heads: Sequence[Head]
    tokenizer: PreTrainedTokenizerBase
    max_length: int
    prompt: str
    settings: Mapping[str, Any]
    token_weights: torch.Tensor | None

    @classmethod
    def read(
        cls,
        model: str | Path,
        folder: Path,
        options: EncoderOptions,
        load: Callable[[Path], PreTrainedModel],
    ) -> Self:
        """Reads a folder, with the changes that the options ask for.

        `load` makes the language model of its folder.
        """
        mode = options.pooling
        layers = options.layers
        pooler: list[Head] = []
        # A new layer draws random weights before it gets those of the folder.
        with seeded():
            saved = read_modules(folder)
            backbone = Backbone(load(saved.transformer))
            if mode == "pooler":
                pooler = [take_pooler(backbone.model)]
                mode = "cls"
                layers = layers or (-1,)
        tokenizer = load_tokenizer(saved.transformer)
        vocabulary = _vocabulary(model, tokenizer, backbone)
        # The suffix is taken out of the tokenizer, also if the prompt is replaced.
        prompt = _saved_prompt(saved, tokenizer)
        settings = saved.settings
        if options.prompt is not None:
            prompt = options.prompt
            settings = {**saved.settings, **NO_PROMPTS}
        token_weights = None
        if options.pooling is None and saved.token_weights is not None:
            token_weights = _fitted(saved.token_weights, len(tokenizer), vocabulary, model)
        return cls(
            saved=saved,
            backbone=backbone,
            pooling=change_pooling(saved.pooling, mode, layers, backbone.layers),
            heads=[*pooler, *saved.heads],
            tokenizer=tokenizer,
            max_length=_max_length(model, saved, tokenizer, backbone),
            prompt=prompt,
            settings=settings,
            token_weights=token_weights,
        )


def _checked_options(
    model: object, pooling: str | None, layers: Sequence[int] | None, prompt: str | None
) -> EncoderOptions:
    if not isinstance(model, str | Path):
        raise InputError(
            f"model {model!r:.60}: a folder or a name is needed, not a {type(model).__name__}"
        )
    try:
        return EncoderOptions(pooling=pooling, layers=layers, prompt=prompt)
    except ValidationError as error:
        raise invalid(f"model {model}", error) from error


def _checked_device(device: str | torch.device | None) -> str | torch.device:
    """The device, or the default one; refuses one that this machine doesn't have."""
    if device is None:
        return default_device()
    try:
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"device {device!r}: {reason}") from error
    return device


def _dtype(
    model: str | Path, precision: Precision | None, device: str | torch.device
) -> torch.dtype | None:
    """The type that the pretrained model computes in; None for the type of the saved weights."""
    if precision not in (None, *get_args(Precision)):
        raise unknown("precision", str(precision), get_args(Precision))
    kind = torch.device(device).type
    is_chosen = precision == "auto"
    precision = resolved(precision, kind)
    if precision is None:
        return None
    if is_chosen:
        logger.warning("%s is computed in bfloat16; precision float32 is exact, and slower", model)
    if precision == "bfloat16":
        warning = warn_of_bfloat16(kind)
        if warning:
            logger.warning(warning)
    dtype: torch.dtype = getattr(torch, precision)
    return dtype


def _vocabulary(model: str | Path, tokenizer: PreTrainedTokenizerBase, backbone: Backbone) -> int:
    """The number of the model's embeddings; refuses a tokenizer with more tokens."""
    count: int = backbone.model.config.vocab_size
    if len(tokenizer) > count:
        raise InputError(
            f"model {model}: its tokenizer has {len(tokenizer)} tokens, its embeddings only {count}"
        )
    return count


def _saved_prompt(saved: Modules, tokenizer: PreTrainedTokenizerBase) -> str:
    """The folder's prompt, with the suffix that is taken out of the tokenizer."""
    suffix = take_suffix(tokenizer)
    before = saved.prompt
    if tokenizer.mask_token:
        # The name in braces stays as it is when a text is lowercased.
        before = before.replace(tokenizer.mask_token, MASK)
    if not suffix:
        return before
    return f"{before}{SENTENCE}{suffix}"


def _max_length(
    model: str | Path, saved: Modules, tokenizer: PreTrainedTokenizerBase, backbone: Backbone
) -> int:
    """The lowest of the limits of the folder, the tokenizer and the model, in tokens.

    The folder of a model with rotary positions may ask for longer texts than the model was trained
    on.
    """
    limits = [saved.max_length, tokenizer.model_max_length]
    if saved.max_length is None or backbone.kind.positions != "rotary":
        limits.append(backbone.max_tokens)
    lowest = UNLIMITED
    for limit in limits:
        if limit is None:
            continue
        if not isinstance(limit, int | float) or limit < 1 or limit % 1:
            raise InputError(
                f"model {model}: its maximum length is {limit!r}; it has to be a number of tokens"
            )
        lowest = min(lowest, int(limit))
    if lowest == UNLIMITED:
        return DEFAULT_MAX_LENGTH
    return lowest


def _fitted(weights: torch.Tensor, tokens: int, vocabulary: int, model: str | Path) -> torch.Tensor:
    """The weights of tokens [n] with as many entries as there are embeddings: [vocabulary]."""
    count = len(weights)
    if count < tokens:
        raise InputError(
            f"model {model}: its WordWeights have {count} tokens, its tokenizer {tokens}"
        )
    fitted = torch.ones(vocabulary)
    fitted[:count] = weights[:vocabulary]
    return fitted


def _unit_vectors(vectors: ArrayLike) -> torch.Tensor:
    """Vectors [d] or [N, d] as [N, d], each scaled to length 1."""
    with as_input_error((TypeError, ValueError), "similarity compares arrays of vectors"):
        array = np.atleast_2d(np.asarray(vectors))
    if array.dtype.kind in "iu":
        array = array.astype(np.float32)
    if array.dtype.kind != "f" or array.ndim != 2:
        raise InputError(
            "similarity compares arrays of vectors, [N, d] and [M, d]; for sentences, write "
            "encoder.similarity(encoder.encode(first), encoder.encode(second))"
        )
    return normalize(torch.from_numpy(array), dim=-1)


def _read(kind: type[B], path: Path) -> B | None:
    """What a file of an encoder's folder says.

    It is None if there is no such file, or if the file is of another program.
    """
    try:
        return kind.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None

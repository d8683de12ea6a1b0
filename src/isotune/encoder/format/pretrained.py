"""Loads a pretrained model and its tokenizer from a Hugging Face folder or the hub.

Weights are read from safetensors; where there are none, from pytorch_model.bin, by torch's restricted reader of
pickles. No code of the folder runs. A weight that is missing, or that the model has no place for, is an error; no
missing weight is drawn at random.
"""

import logging
import math
import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, is_zipfile

import torch
import transformers
from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from isotune.encoder.backbone import refuse_other_models
from isotune.encoder.finished import ADAPTER, MODULES, hub_files, model_errors, model_folder
from isotune.encoder.heads import Dense
from isotune.errors import InputError, telling
from isotune.files import CHECKSUMS, inside, read_json
from isotune.kernels.threads import PROCESS

logger = logging.getLogger(__name__)

# First parts of the names of task heads' weights, which pretrained checkpoints may have beside the encoder's.
TASK_HEADS = (
    *(
        "classifier",
        "cls",
        "decoder",
        "discriminator_predictions",
        "generator_lm_head",
        "generator_predictions",
    ),
    *("head", "lm_head", "lm_predictions", "pooler", "pre_classifier", "predictions", "qa_outputs"),
    *("seq_relationship", "sequence_summary", "sop_classifier"),
    *("vocab_layer_norm", "vocab_projector", "vocab_transform"),
)
# The files that can hold a tokenizer's vocabulary.
VOCABULARIES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "sentencepiece.bpe.model",
    "spiece.model",
    "spm.model",
)
WEIGHTS = ("model*.safetensors", "pytorch_model*.bin")
# The files of settings that are read. With the limits, in bytes, no file needs much memory; the largest published
# settings (the weights of words) have 16 MB, and the largest vocabulary has 35 MB.
SETTINGS = (
    *(
        "config.json",
        "config_sentence_transformers.json",
        "sentence_*_config.json",
        "tokenizer_config.json",
    ),
    *("added_tokens.json", "modules.json", "special_tokens_map.json", "*.index.json"),
)
LARGEST_SETTINGS, LARGEST_VOCABULARY = 24_000_000, 2**26
MOST_LAYERS = 256
# The files to fetch from the hub: configuration, vocabulary and safetensors, never code; and pickled weights only where
# there are no safetensors (`_wanted`). README.md names the licence.
HUB_FILES = [
    *("README.md", "*.json", "*.txt", "*.model", "*.spm", "model*.safetensors"),
    *("*/config.json", "*/model.safetensors"),
]


def local_folder(model: str | Path) -> Path:
    """Finds the folder of a model: the path itself, the bundled model, or a snapshot of a repository on the hub."""
    from huggingface_hub import snapshot_download

    if path := model_folder(model):
        return path
    name = str(model)
    with model_errors(name):
        files = hub_files(name)
        return (
            files
            if isinstance(files, Path)
            else Path(snapshot_download(name, allow_patterns=_wanted(files)))
        )


def _wanted(names: Iterable[str]) -> list[str]:
    """Patterns of the files to fetch; pickles only where there are a config.json and no safetensors, and no pooling."""
    listed = [Path(name) for name in names]
    safe = {file.parent for file in listed if file.match("model*.safetensors")}
    folders = {
        file.parent
        for file in listed
        if file.name == "config.json" and not file.parent.name.endswith("_Pooling")
    }
    return [
        *HUB_FILES,
        *sorted((folder / "pytorch_model*.bin").as_posix() for folder in folders - safe),
    ]


def check_files(folder: Path) -> None:
    """Refuses files that never end, or need much memory, or are no JSON, before a library reads them."""
    for path in sorted(folder.iterdir()):
        settings, weights = (
            any(path.match(pattern) for pattern in names) for names in (SETTINGS, WEIGHTS)
        )
        if not (
            settings
            or weights
            or path.name in (*VOCABULARIES, "merges.txt", "calibration.json", CHECKSUMS)
        ):
            continue
        if not path.is_file():
            raise InputError(
                f"{path}: it is no file, but a folder, a pipe, a device or a link to nothing; replace it"
            )
        size = path.stat().st_size
        most = LARGEST_SETTINGS if settings else size if weights else LARGEST_VOCABULARY
        if path.suffix == ".bin" and is_zipfile(path):
            with (
                telling(BadZipFile, f"{path}: it is damaged", "; fetch it again"),
                ZipFile(path) as parts,
            ):
                size = sum(part.file_size for part in parts.infolist())  # torch compresses nothing
        if size > most:
            raise InputError(
                f"{path}: it has {size:,} bytes, where {most:,} are the most; it can't be of a model"
            )
        if settings and type(read_json(path)) is not (list if path.name == MODULES else dict):
            raise InputError(
                f"{path}: its JSON is of another kind than such files have; fetch it again"
            )


def load_model(folder: Path, dtype: torch.dtype | None, verified: bool = False) -> PreTrainedModel:
    """Loads the folder's base model, without a task head; without a dtype, in the type that the folder names."""
    with load_errors(folder):
        refuse_other_models(read_json(folder / "config.json"))
    model, info = load_weights(AutoModel, folder, dtype)
    missing = sorted(info["missing_keys"])
    if missing and all(key.startswith("pooler.") for key in missing):
        # A masked language model has no pooler, and sentence vectors don't use one.
        model.pooler = None
        missing = []
    prefix = model.base_model_prefix + "."
    unexpected = sorted(
        key
        for key in info["unexpected_keys"]
        if key.removeprefix(prefix).partition(".")[0] not in TASK_HEADS
    )
    mismatched = sorted(key for key, *_ in info["mismatched_keys"])
    for problem, keys in (
        ("its weight file lacks", missing),
        ("the model doesn't know", unexpected),
        ("its weight file has another shape for", mismatched),
    ):
        if keys:
            if keys[0].startswith("mlp.dense"):
                raise InputError(
                    f"model {folder}: output of SimCSE's code; its simcse_to_huggingface.py converts it"
                )
            more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
            raise InputError(
                f"model {folder}: {problem} {', '.join(keys[:3])}{more}; config.json has to fit them"
            )
    if not verified and not all(
        torch.isfinite(parameter).all() for parameter in model.parameters()
    ):
        raise InputError(
            f"model {folder}: its weights have NaN or infinite values; it comes from a run that failed"
        )
    model.config.output_hidden_states = False
    return model


def load_weights(kind: Any, folder: Path, dtype: torch.dtype | None) -> tuple[Any, dict[str, Any]]:
    """Loads a model of transformers' class `kind`, and the lists that transformers makes of keys that don't fit."""
    safe = any(folder.glob("model*.safetensors"))
    if not safe and any(folder.glob("pytorch_model*.bin")):
        note_pickle(folder)
    with quiet(), load_errors(folder):
        config = _config(kind, folder)
        # transformers reads a .bin by torch.load with weights_only=True, and with mmap where the format allows it.
        model, info = kind.from_pretrained(
            folder,
            config=config,
            dtype=dtype or "auto",
            use_safetensors=safe,
            trust_remote_code=False,  # unset, transformers would ask on the terminal
            ignore_mismatched_sizes=True,  # lists them, for the caller
            output_loading_info=True,
        )
    return model, info


def _config(kind: Any, folder: Path) -> Any:
    """Reads config.json. Refuses what would make transformers read other folders, fetch and run code, or never end."""
    if (folder / "adapter_config.json").exists():
        raise InputError(ADAPTER)
    for index in sorted(folder.glob("*.index.json")):
        for name in read_json(index)["weight_map"].values():
            inside(folder, name)
    content = read_json(folder / "config.json")
    for key in ("attn_implementation", "_attn_implementation"):
        if content.get(key) not in (
            None,
            "eager",
            "sdpa",
        ):  # for another name, transformers may fetch code
            raise InputError(
                f"config.json: {key} {content[key]!r} is not allowed; leave it out, or take eager or sdpa"
            )
    if code := content.get("auto_map"):
        logger.warning(
            "model %s: its own code (%s) is not run; it is read as %s",
            folder,
            code,
            content["model_type"],
        )
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    for key in ("hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size"):
        if (
            not 1
            <= getattr(config, key)
            <= (MOST_LAYERS if key == "num_hidden_layers" else math.inf)
        ):
            raise InputError(f"config.json: {key} {getattr(config, key)} is impossible")
    config.return_dict, config.chunk_size_feed_forward = True, 0  # how results come, and not which
    held = sum(path.stat().st_size for name in WEIGHTS for path in folder.glob(name))
    with torch.device("meta"):
        described = sum(
            weight.numel()
            for weight in kind.from_config(config, trust_remote_code=False).parameters()
        )
    if described > held > 0:
        raise InputError(
            f"config.json describes {described:,} weights, and the weight files have {held:,} bytes"
        )
    return config


@cache
def note_pickle(folder: Path) -> None:
    """Says once a process that a folder's weights are read from a pickle."""
    logger.warning(
        "Model %s: its weights are read from pytorch_model.bin, by torch's restricted reader, which runs no code.",
        folder,
    )


@contextmanager
def load_errors(folder: Path) -> Iterator[None]:
    """Turns whatever a damaged or refused file raises into an InputError of one line."""
    try:
        yield
    except Exception as error:  # a damaged pickle raises errors of almost any class
        text = str(error) or type(error).__name__
        if isinstance(error, pickle.UnpicklingError):
            # torch's own text is long, and advises to read the file unsafely.
            refusal = str(error.__context__ or error).partition(" Please use")[0]
            text = f"torch's restricted reader refuses pytorch_model.bin: {refusal}"
        advice = "; give the folder of a Hugging Face model" if isinstance(error, OSError) else ""
        raise InputError(
            f"model {folder}: it can't be loaded: {' '.join(text.split())[:300]}{advice}"
        ) from error


def take_pooler(model: PreTrainedModel) -> Dense:
    """Moves the model's own pooler, a linear layer and tanh for the vector of [CLS], into a head."""
    pooler = getattr(model, "pooler", None)
    if pooler is None:
        raise InputError(
            f"pooling pooler: model {model.name_or_path} has no weights of a pooler; choose cls or mean, or leave "
            "pooling out if the encoder was saved with its pooler"
        )
    linear = getattr(pooler, "dense", pooler)  # ALBERT's pooler is the linear layer itself
    head = Dense(linear.in_features, linear.out_features)
    head.linear.load_state_dict(linear.state_dict())
    model.pooler = None  # type: ignore[assignment]
    return head


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Loads the folder's tokenizer."""
    if not any((folder / name).exists() for name in VOCABULARIES):
        # transformers would make a tokenizer without a vocabulary.
        raise InputError(
            f"model {folder}: there is no tokenizer; one of {', '.join(VOCABULARIES)} has to be there"
        )
    with telling(
        Exception, f"model {folder}: its tokenizer can't be loaded"
    ):  # a damaged one raises almost any class
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise InputError(
            f"model {folder}: its tokenizer is a {type(tokenizer).__name__}, which is not supported"
        )
    return tokenizer


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps transformers from showing progress and from reporting new weights, which are checked here instead."""
    with PROCESS:
        verbosity, bars = (
            transformers.logging.get_verbosity(),
            transformers.logging.is_progress_bar_enabled(),
        )
        no_hub_bars = are_progress_bars_disabled()
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        try:
            yield
        finally:
            transformers.logging.set_verbosity(verbosity)
            if bars:
                transformers.logging.enable_progress_bar()
            if no_hub_bars:
                disable_progress_bars()

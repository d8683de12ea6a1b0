"""Loads a pretrained model and its tokenizer from a Hugging Face folder or the hub.

Weights are read from safetensors; where there are none, from pytorch_model.bin, by torch's restricted reader of
pickles. No code of the folder runs. A weight that is missing, or that the model has no place for, is an error; no
missing weight is drawn at random.
"""

import json
import logging
import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from isotune.bundled import local_model
from isotune.data.fetch import Fetch
from isotune.encoder.finished import fetched_model, hub_files, model_errors, model_folder
from isotune.encoder.heads import Dense
from isotune.errors import InputError
from isotune.files import inside

logger = logging.getLogger(__name__)

# First parts of the names of task heads' weights, which pretrained checkpoints may have beside the encoder's.
TASK_HEADS = (
    *("classifier", "cls", "decoder", "discriminator_predictions", "generator_lm_head", "generator_predictions"),
    *("head", "lm_head", "lm_predictions", "pooler", "pre_classifier", "predictions", "qa_outputs"),
    *("seq_relationship", "sequence_summary", "sop_classifier"),
    *("vocab_layer_norm", "vocab_projector", "vocab_transform"),
)
# The files that can hold a tokenizer's vocabulary.
VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model", "spm.model")
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
        fetched = fetched_model(name) if files is None else None
        return fetched or Path(snapshot_download(name, allow_patterns=_wanted(files or ())))


def plan_model_fetch(model: str) -> Fetch | None:
    """What has to be fetched for a model on the hub; None for a model on this machine."""
    from huggingface_hub import snapshot_download

    if local_model(model):
        return None
    with model_errors(model):
        names = hub_files(model)
        if names is None:
            return None  # it was fetched before
        files = snapshot_download(model, allow_patterns=_wanted(names), dry_run=True)

    size = sum(file.file_size or 0 for file in files if file.will_download)
    return Fetch(model, size, partial(local_folder, model), files[0].commit_hash if files else "")


def _wanted(names: Iterable[str]) -> list[str]:
    """Patterns of the files to fetch; pickles only of folders with a config.json and no safetensors.

    A pooling has no weights.
    """
    listed = [Path(name) for name in names]
    safe = {file.parent for file in listed if file.match("model*.safetensors")}
    folders = {
        file.parent for file in listed if file.name == "config.json" and not file.parent.name.endswith("_Pooling")
    }
    return [*HUB_FILES, *sorted((folder / "pytorch_model*.bin").as_posix() for folder in folders - safe)]


def load_model(folder: Path, dtype: torch.dtype | None) -> PreTrainedModel:
    """Loads the folder's base model, without a task head; without a dtype, in the type that the folder names."""
    model, info = load_weights(AutoModel, folder, dtype)
    missing = sorted(info["missing_keys"])
    if missing and all(key.startswith("pooler.") for key in missing):
        # A masked language model has no pooler, and sentence vectors don't use one.
        model.pooler = None
        missing = []
    prefix = model.base_model_prefix + "."
    unexpected = sorted(
        key for key in info["unexpected_keys"] if key.removeprefix(prefix).partition(".")[0] not in TASK_HEADS
    )
    mismatched = sorted(key for key, *_ in info["mismatched_keys"])
    for problem, keys in (
        ("its weight file lacks", missing),
        ("the model doesn't know", unexpected),
        ("its weight file has another shape for", mismatched),
    ):
        if keys:
            more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
            raise InputError(
                f"model {folder}: {problem} {', '.join(keys[:3])}{more}; config.json must belong to the weights"
            )
    if not all(torch.isfinite(parameter).all() for parameter in model.parameters()):
        raise InputError(f"model {folder}: its weights have NaN or infinite values; it comes from a run that failed")
    model.config.output_hidden_states = False
    loaded: PreTrainedModel = model
    return loaded


def load_weights(kind: Any, folder: Path, dtype: torch.dtype | None) -> tuple[Any, dict[str, Any]]:
    """Loads a model from safetensors, or from pytorch_model.bin if the folder has no safetensors.

    `kind` is transformers' class for the kind of model, such as AutoModel. The keys that are missing, unexpected or
    mismatched are returned beside the model, as transformers lists them.
    """
    safe = any(folder.glob("model*.safetensors"))
    if not safe and any(folder.glob("pytorch_model*.bin")):
        note_pickle(folder)
    with quiet(), load_errors(folder):
        _check_config(folder)
        # transformers reads a .bin by torch.load with weights_only=True, and with mmap where the format allows it.
        model, info = kind.from_pretrained(
            folder,
            dtype=dtype or "auto",
            use_safetensors=safe,
            trust_remote_code=False,  # unset, transformers would ask on the terminal
            ignore_mismatched_sizes=True,  # lists them, for the caller
            output_loading_info=True,
        )
    return model, info


def _check_config(folder: Path) -> None:
    """Refuses a folder that would make transformers read other folders, or fetch and run code."""
    if (folder / "adapter_config.json").exists():
        raise InputError("it holds an adapter of another model; merge it into that model, and save the result")
    for index in sorted(folder.glob("*.index.json")):
        for name in json.loads(index.read_text("utf-8"))["weight_map"].values():
            inside(folder, name)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    for key in ("attn_implementation", "_attn_implementation"):
        if config.get(key) not in (None, "eager", "sdpa"):  # for another name, transformers may fetch code
            raise InputError(
                f"config.json: {key} {config[key]!r} is not allowed; leave it out, or choose eager or sdpa"
            )


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
        raise InputError(f"model {folder}: it can't be loaded: {' '.join(text.split())[:300]}{advice}") from error


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
        raise InputError(f"model {folder}: there is no tokenizer; one of {', '.join(VOCABULARIES)} has to be there")
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # a damaged tokenizer.json raises errors of almost any class
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"model {folder}: its tokenizer can't be loaded: {reason}") from error
    return tokenizer


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps transformers from showing progress and from reporting new weights, which are checked here instead.

    transformers switches the progress bars of huggingface_hub together with its own; both are put back.
    """
    verbosity, bars = transformers.logging.get_verbosity(), transformers.logging.is_progress_bar_enabled()
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

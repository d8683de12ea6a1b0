"""A pretrained model out of a Hugging Face folder, or the hub's.

Nothing is trusted and nothing is made up: only safetensors are read, no code from the folder runs, and a weight that
is missing, or that nothing in the model answers to, is an error instead of a silent new initialisation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import transformers
from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from isotune.encoder.format.names import local_model
from isotune.errors import InputError

# First names of the weights of task heads that pretrained checkpoints carry beside the encoder.
TASK_HEADS = frozenset(
    [
        "classifier",
        "cls",
        "decoder",
        "discriminator_predictions",
        "generator_lm_head",
        "generator_predictions",
        "head",
        "lm_head",
        "lm_predictions",
        "pooler",
        "pre_classifier",
        "predictions",
        "qa_outputs",
        "seq_relationship",
        "sequence_summary",
        "sop_classifier",
        "vocab_layer_norm",
        "vocab_projector",
        "vocab_transform",
    ]
)
# The files that a tokenizer's vocabulary can be in.
VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model", "spm.model")
# What is fetched of a repository on the hub: configuration, vocabulary and safetensors; never code, never a pickle.
HUB_FILES = ["*.json", "*.txt", "*.model", "model*.safetensors", "*/config.json", "*/model.safetensors"]


def local_folder(model: str | Path) -> Path:
    """The folder of a model: the path itself, the bundled one, or a snapshot of the hub's repository of that name.

    Raises:
        InputError: there is neither, or the hub can't be reached.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    if path := local_model(model):
        if path.is_dir():
            return path
        raise InputError(f"model {model}: this is a file; give the folder that holds config.json and the weights")
    try:
        return Path(snapshot_download(str(model), allow_patterns=HUB_FILES))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"model {model}: there is no such folder, and the Hugging Face hub gave none of that name ({reason}); "
            "give a local folder, or a hub name while online"
        ) from error


def load_model(folder: Path, dtype: torch.dtype | None) -> PreTrainedModel:
    """The folder's base model with every one of its weights, and no others.

    Args:
        folder: holds config.json and model.safetensors (or its shards).
        dtype: the type of the weights; as the folder says if None.

    Raises:
        InputError: the folder lacks a part, or its weights don't fit the model exactly.
    """
    _check_files(folder)
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        with quiet():
            model, info = AutoModel.from_pretrained(
                folder,
                config=config,
                dtype=dtype or "auto",
                use_safetensors=True,
                trust_remote_code=False,  # unset, transformers would ask on the terminal
                ignore_mismatched_sizes=True,  # so that they are listed; below they are an error
                output_loading_info=True,
            )
    except (SafetensorError, OSError, ValueError, KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"model {folder}: it can't be loaded: {reason}") from error
    missing = sorted(info["missing_keys"])
    if missing and all(key.startswith("pooler.") for key in missing):
        # A masked language model has no pooler; sentence vectors never come from it.
        model.pooler = None
        missing = []
    prefix = model.base_model_prefix + "."
    unexpected = sorted(
        key for key in info["unexpected_keys"] if key.removeprefix(prefix).partition(".")[0] not in TASK_HEADS
    )
    mismatched = sorted(key for key, *_ in info["mismatched_keys"])
    for problem, keys in ("lacks", missing), ("doesn't know", unexpected), ("has another shape for", mismatched):
        if keys:
            subject = "the model" if problem == "doesn't know" else "its weight file"
            more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
            raise InputError(
                f"model {folder}: {subject} {problem} {', '.join(keys[:3])}{more}; "
                "config.json and the weights must belong together"
            )
    if not all(torch.isfinite(parameter).all() for parameter in model.parameters()):
        raise InputError(f"model {folder}: its weights have NaN or infinite values; it comes from a run that failed")
    model.config.output_hidden_states = False
    loaded: PreTrainedModel = model
    return loaded


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The folder's tokenizer.

    Raises:
        InputError: it has none that can be loaded.
    """
    if not any((folder / name).exists() for name in VOCABULARIES):
        # transformers would make an empty tokenizer, which knows no word.
        raise InputError(f"model {folder}: there is no tokenizer; one of {', '.join(VOCABULARIES)} has to be there")
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError) as error:
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


def _check_files(folder: Path) -> None:
    """One clear line for a folder without its parts, before transformers tries."""
    if not (folder / "config.json").exists():
        raise InputError(f"model {folder}: there is no config.json; give the folder of a Hugging Face model")
    if any(folder.glob("model*.safetensors")):
        return
    if pickles := sorted(path.name for path in folder.glob("*.bin")):
        raise InputError(
            f"model {folder}: its weights are only there as a pickle ({pickles[0]}), which can run code when it is "
            "read; convert it with transformers' save_pretrained to model.safetensors, on a machine you can risk"
        )
    raise InputError(f"model {folder}: there are no weights; model.safetensors is missing")

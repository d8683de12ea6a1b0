"""Loads a pretrained model and its tokenizer from a Hugging Face folder or the hub.

Weights are read from safetensors; where there are none, from pytorch_model.bin, by torch's
restricted reader of pickles. No code of the folder runs. A weight that is missing, or that the
model has no place for, is an error; no missing weight is drawn at random.
"""

import logging
import math
import pickle
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, is_zipfile

import torch
import transformers
from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars
from safetensors import safe_open
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.conversion_mapping import get_checkpoint_conversion_mapping

from isotune.encoder.calibration import CALIBRATION
from isotune.encoder.finished import (
    ADAPTER,
    ADAPTER_CONFIG,
    LARGEST_SETTINGS,
    MODULES,
    hub_files,
    model_errors,
    model_folder,
    refuse_unsupported,
)
from isotune.encoder.heads import Dense
from isotune.encoder.kinds import kind_of
from isotune.encoder.reference_outputs import REFERENCE_OUTPUTS
from isotune.encoder.shared_space import SHARED_SPACE
from isotune.errors import InputError, as_input_error
from isotune.files import CHECKSUMS, inside, read_json
from isotune.kernels.threads import PROCESS

logger = logging.getLogger(__name__)

# First parts of the names of task heads' weights, which pretrained checkpoints may have beside the
# encoder's.
TASK_HEADS = {
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
}
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
# The files of settings that are read. `LARGEST_SETTINGS` limits their bytes, so that no file needs
# much memory.
SETTINGS = (
    "config.json",
    "config_sentence_transformers.json",
    "sentence_*_config.json",
    "tokenizer_config.json",
    "added_tokens.json",
    "modules.json",
    "classifier.json",
    "special_tokens_map.json",
    "*.index.json",
)
# The other files that are read; vocabularies are among them. The largest published one has 35 MB.
OTHER_FILES = (
    *VOCABULARIES,
    "merges.txt",
    CALIBRATION,
    SHARED_SPACE,
    REFERENCE_OUTPUTS,
    CHECKSUMS,
)
LARGEST_VOCABULARY = 2**26
# The settings of a config.json that are numbers of 1 or more, each with its highest value.
SIZES = {
    "hidden_size": math.inf,
    "num_attention_heads": math.inf,
    "num_hidden_layers": 256,
    "vocab_size": math.inf,
}
# The files to fetch from the hub: configuration, vocabulary and safetensors, never code; and
# pickled weights only where there are no safetensors (`_wanted`). README.md names the licence.
HUB_SETTINGS = [
    "README.md",
    "*.json",
    "*.txt",
    "*.model",
    "*.spm",
    "*/config.json",
    "*/model.safetensors",
]
HUB_FILES = [*HUB_SETTINGS, "model*.safetensors"]
# In the older layout, the language model is the folder of the first module; heads come after it.
LANGUAGE_MODEL = "0_*/model.safetensors"


def local_folder(model: str | Path, weights: bool = True) -> Path:
    """Finds the folder of a model.

    It is the path itself, the bundled model, or a snapshot of a repository on the hub. Without
    `weights`, those of the language model are not fetched.
    """
    from huggingface_hub import snapshot_download

    folder = model_folder(model)
    if folder:
        return folder
    name = str(model)
    with model_errors(name):
        files = hub_files(name)
        if isinstance(files, Path):
            folder = files
        else:
            patterns = HUB_SETTINGS
            ignored = [LANGUAGE_MODEL]
            if weights:
                patterns = _wanted(files)
                ignored = []
            snapshot = snapshot_download(name, allow_patterns=patterns, ignore_patterns=ignored)
            folder = Path(snapshot)
    refuse_unsupported(folder, name)
    return folder


def _wanted(names: Iterable[str]) -> list[str]:
    """Patterns of the files to fetch.

    Pickles are fetched only where there are a config.json and no safetensors, and no pooling.
    """
    folders = set()
    safe = set()
    for file in map(Path, names):
        if file.match("model*.safetensors"):
            safe.add(file.parent)
        if file.name == "config.json" and not file.parent.name.endswith("_Pooling"):
            folders.add(file.parent)
    pickles = sorted((folder / "pytorch_model*.bin").as_posix() for folder in folders - safe)
    return [*HUB_FILES, *pickles]


def check_files(folder: Path) -> None:
    """Checks the files of a folder before a library reads them.

    Refuses files that never end, or need much memory, or are no JSON.
    """
    for path in sorted(folder.iterdir()):
        if _matches(path, SETTINGS):
            _check_file(path, LARGEST_SETTINGS)
            expected = list if path.name == MODULES else dict
            if type(read_json(path)) is not expected:
                raise InputError(
                    f"{path}: its JSON is of another kind than such files have; fetch it again"
                )
        elif _matches(path, WEIGHTS):
            _check_file(path, most=None)
        elif path.name in OTHER_FILES:
            _check_file(path, LARGEST_VOCABULARY)


def _matches(path: Path, patterns: Iterable[str]) -> bool:
    return any(path.match(pattern) for pattern in patterns)


def _check_file(path: Path, most: int | None) -> None:
    """Refuses what is no file, or has more than `most` bytes; None lets weights have any size."""
    if not path.is_file():
        raise InputError(
            f"{path}: it is no file, but a folder, a pipe, a device or a link to nothing; "
            "replace it"
        )
    size = path.stat().st_size
    if most is None:
        most = size
    if path.suffix == ".bin" and is_zipfile(path):
        size = _unpacked_size(path)
    if size > most:
        raise InputError(
            f"{path}: it has {size:,} bytes, where {most:,} are the most; it can't be of a model"
        )


def _unpacked_size(path: Path) -> int:
    """The bytes of a pickle's parts, which are those of the file: torch compresses nothing."""
    with (
        as_input_error(BadZipFile, f"{path}: it is damaged", "; fetch it again"),
        ZipFile(path) as parts,
    ):
        return sum(part.file_size for part in parts.infolist())


def load_model(folder: Path, dtype: torch.dtype | None, verified: bool = False) -> PreTrainedModel:
    """Loads the folder's base model, without a task head.

    Without a dtype, the model has the type that the folder names. The weights of a `verified`
    folder, whose checksums were compared, are not searched for NaN.
    """
    with load_errors(folder):
        kind_of(read_json(folder / "config.json"))
    _note_adapters(folder)
    model, info = load_weights(AutoModel, folder, dtype)
    if info["missing_keys"] and all(key.startswith("pooler.") for key in info["missing_keys"]):
        # A masked language model has no pooler, and sentence vectors don't use one.
        model.pooler = None
        info["missing_keys"] = []
    _check_weight_names(folder, model.base_model_prefix, info)
    if not verified:
        _check_finite(folder, model)
    model.config.output_hidden_states = False
    if hasattr(model.config, "use_cache"):
        # A decoder would keep its keys and values for a next token.
        model.config.use_cache = False
    return model


def outline_model(folder: Path) -> PreTrainedModel:
    """The folder's base model without weights.

    What the sizes of the weight files and the names in them tell is checked all the same.
    """
    with quiet(), load_errors(folder):
        kind_of(read_json(folder / "config.json"))
        _note_adapters(folder)
        config = _config(AutoModel, folder)
        with torch.device("meta"):
            model: PreTrainedModel = AutoModel.from_config(config, trust_remote_code=False)
        names = _weight_names(folder, f"{model.base_model_prefix}.")
    # transformers renames the weights of some types, so that only loading tells what fits.
    if names and get_checkpoint_conversion_mapping(config.model_type) is None:
        known = model.state_dict().keys()
        _refuse_wrapped_weights(folder, sorted(known - names), sorted(names - known))
    return model


def _note_adapters(folder: Path) -> None:
    """Says that the adapters that lie beside a model, in folders of their own, are not used."""
    names = sorted(path.parent.name for path in folder.glob(f"*/{ADAPTER_CONFIG}"))
    if names:
        logger.warning(
            "model %s: it is used without its adapters (%s); to use one, merge it into the model "
            "by PEFT, and save the result",
            folder,
            ", ".join(names),
        )


def _weight_names(folder: Path, prefix: str) -> set[str]:
    """The names of the weights in a folder's safetensors, without a prefix."""
    names: set[str] = set()
    for path in folder.glob("model*.safetensors"):
        with safe_open(path, "pt") as file:
            names.update(name.removeprefix(prefix) for name in file.keys())  # noqa: SIM118 (no dict)
    return names


def _check_weight_names(folder: Path, prefix: str, info: Mapping[str, Any]) -> None:
    """Refuses weights that are missing, that the model has no place for, or of other shapes."""
    missing = sorted(info["missing_keys"])
    unexpected = []
    for key in sorted(info["unexpected_keys"]):
        if key.removeprefix(f"{prefix}.").partition(".")[0] not in TASK_HEADS:
            unexpected.append(key)
    mismatched = sorted(key for key, *_ in info["mismatched_keys"])
    advice = "config.json has to fit them"
    if "auto_map" in read_json(folder / "config.json"):
        advice = (
            "config.json names code of its own, which never runs here; look for a version of the "
            "model that transformers reads without code"
        )
    else:
        _refuse_wrapped_weights(folder, missing, info["unexpected_keys"])
    for problem, keys in (
        ("its weight file lacks", missing),
        ("the model doesn't know", unexpected),
        ("its weight file has another shape for", mismatched),
    ):
        if not keys:
            continue
        if keys[0].startswith("mlp.dense"):
            raise InputError(
                f"model {folder}: output of SimCSE's code; its simcse_to_huggingface.py converts it"
            )
        more = ""
        if len(keys) > 3:
            more = f" and {len(keys) - 3} more"
        raise InputError(f"model {folder}: {problem} {', '.join(keys[:3])}{more}; {advice}")


def _refuse_wrapped_weights(folder: Path, missing: Iterable[str], unknown: Iterable[str]) -> None:
    """Refuses weights that are missing only because their names have another beginning."""
    for name in missing:
        for key in unknown:
            if ".lora_" in key:
                raise InputError(f"model {folder}: {ADAPTER}")
            prefix = key.removesuffix(name)
            if prefix.endswith(".") and prefix != key:
                raise InputError(
                    f"model {folder}: the names of its weights begin with {prefix!r}, as those of "
                    "a model inside another do (torch's DataParallel, sentence-transformers, a "
                    "trainer); save the inner model by its save_pretrained"
                )


def _check_finite(folder: Path, model: PreTrainedModel) -> None:
    for parameter in model.parameters():
        if not torch.isfinite(parameter).all():
            raise InputError(
                f"model {folder}: its weights have NaN or infinite values; it comes from a run "
                "that failed"
            )


def load_weights(kind: Any, folder: Path, dtype: torch.dtype | None) -> tuple[Any, dict[str, Any]]:
    """Loads a model of transformers' class `kind`.

    Returns the model, and the lists that transformers makes of keys that don't fit.
    """
    safe = any(folder.glob("model*.safetensors"))
    if not safe and any(folder.glob("pytorch_model*.bin")):
        note_pickle(folder)
    with quiet(), load_errors(folder):
        config = _config(kind, folder)
        # transformers reads a .bin by torch.load with weights_only=True, and with mmap where the
        # format allows it. If trust_remote_code is unset, transformers asks on the terminal.
        # ignore_mismatched_sizes has the mismatched keys listed for the caller.
        model, info = kind.from_pretrained(
            folder,
            config=config,
            dtype=dtype or "auto",
            use_safetensors=safe,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    return model, info


def _config(kind: Any, folder: Path) -> Any:
    """Reads config.json.

    Refuses what would make transformers read other folders, fetch and run code, or never end.
    """
    if (folder / ADAPTER_CONFIG).exists():
        raise InputError(ADAPTER)
    for index in sorted(folder.glob("*.index.json")):
        for name in read_json(index)["weight_map"].values():
            inside(folder, name)
    content = read_json(folder / "config.json")
    for key in ("attn_implementation", "_attn_implementation"):
        # For another name, transformers may fetch code.
        if content.get(key) not in (None, "eager", "sdpa"):
            raise InputError(
                f"config.json: {key} {content[key]!r} is not allowed; leave it out, or take eager "
                "or sdpa"
            )
    code = content.get("auto_map")
    if code:
        logger.warning(
            "model %s: its own code (%s) is not run; it is read as %s",
            folder,
            code,
            content["model_type"],
        )
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    for key, most in SIZES.items():
        size = getattr(config, key)
        if not 1 <= size <= most:
            raise InputError(f"config.json: {key} {size} is impossible")
    # Both decide how results are given, and not which.
    config.return_dict = True
    config.chunk_size_feed_forward = 0
    _check_size(kind, config, folder)
    return config


def _check_size(kind: Any, config: Any, folder: Path) -> None:
    """Refuses a config.json that describes more weights than the weight files can hold."""
    held = 0
    for pattern in WEIGHTS:
        held += sum(path.stat().st_size for path in folder.glob(pattern))
    with torch.device("meta"):
        model = kind.from_config(config, trust_remote_code=False)
    described = sum(weight.numel() for weight in model.parameters())
    if described > held > 0:
        raise InputError(
            f"config.json describes {described:,} weights, and the weight files have {held:,} bytes"
        )


@cache
def note_pickle(folder: Path) -> None:
    """Says once a process that a folder's weights are read from a pickle."""
    logger.warning(
        "Model %s: its weights are read from pytorch_model.bin, by torch's restricted reader, "
        "which runs no code.",
        folder,
    )


@contextmanager
def load_errors(folder: Path) -> Iterator[None]:
    """Turns whatever a damaged or refused file raises into an InputError of one line."""
    try:
        yield
    except Exception as error:
        # A damaged pickle raises errors of almost any class.
        reason = str(error) or type(error).__name__
        advice = ""
        if isinstance(error, KeyError):
            # Its text is only the key.
            reason = repr(error)
        if isinstance(error, pickle.UnpicklingError):
            # torch's own text is long, and advises to read the file unsafely.
            refusal = str(error.__context__ or error).partition(" Please use")[0]
            reason = f"torch's restricted reader refuses pytorch_model.bin: {refusal}"
        if isinstance(error, OSError) and error.errno is None:
            # This is transformers' error for a file that is not there. An error of the system has
            # a number.
            advice = "; give the folder of a Hugging Face model"
        reason = " ".join(reason.split())[:300]
        raise InputError(f"model {folder}: it can't be loaded: {reason}{advice}") from error


def take_pooler(model: PreTrainedModel) -> Dense:
    """Moves the model's own pooler into a head: a linear layer and tanh for the vector of [CLS]."""
    pooler = getattr(model, "pooler", None)
    if pooler is None:
        raise InputError(
            f"pooling pooler: model {model.name_or_path} has no weights of a pooler; choose cls or "
            "mean, or leave pooling out if the encoder was saved with its pooler"
        )
    # ALBERT's pooler is the linear layer itself.
    linear = getattr(pooler, "dense", pooler)
    head = Dense(linear.in_features, linear.out_features)
    head.linear.load_state_dict(linear.state_dict())
    model.pooler = None  # type: ignore[assignment]
    return head


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Loads the folder's tokenizer."""
    if not any((folder / name).exists() for name in VOCABULARIES):
        # transformers would make a tokenizer without a vocabulary.
        raise InputError(
            f"model {folder}: there is no tokenizer; one of {', '.join(VOCABULARIES)} has to be "
            "there"
        )
    # A damaged tokenizer raises errors of almost any class.
    with as_input_error(Exception, f"model {folder}: its tokenizer can't be loaded"):
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise InputError(
            f"model {folder}: its tokenizer is a {type(tokenizer).__name__}, which is not supported"
        )
    return tokenizer


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps transformers from showing progress, and from reporting new weights.

    New weights are checked here instead.
    """
    with PROCESS:
        verbosity = transformers.logging.get_verbosity()
        bars = transformers.logging.is_progress_bar_enabled()
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

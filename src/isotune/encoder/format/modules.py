"""Reads an encoder's folder in sentence-transformers' format: a language model, and other modules.

The modules make sentence vectors of the model's hidden states. `isotune.encoder.saving` writes such
a folder. Modules that only isotune has are imported from `isotune.encoder.st_modules` by
sentence-transformers. A module or setting that is not supported here is an error, because without
it the vectors would differ.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from isotune.encoder.finished import MODULES
from isotune.encoder.format.pretrained import check_files, load_errors, note_pickle
from isotune.encoder.heads import TRUNCATE_DIM, Dense, Head, Normalize, NormalizingFlow
from isotune.encoder.kinds import kind_of
from isotune.encoder.pooling import Pooling
from isotune.errors import InputError, as_input_error
from isotune.files import inside, read_json, rust_writes
from isotune.plugins import require_plugins
from isotune.registry import Registry

logger = logging.getLogger(__name__)
H = TypeVar("H", bound=type[Head])

# The heads by the last part of the type that modules.json names: Dense, Flow, Normalize.
HEADS: Registry[type[Head]] = Registry(
    "head",
    {head.type_name.rpartition(".")[2]: head for head in (Dense, NormalizingFlow, Normalize)},
)
# The plugins whose code makes the vectors. The file is there only if there are any.
PLUGINS = "plugins.json"
# sentence-transformers' flag for each pooling; for mask, WordWeights silences all other tokens.
FLAGS = {
    "cls": "cls_token",
    "mean": "mean_tokens",
    "mask": "mean_tokens",
    "max": "max_tokens",
    "lasttoken": "lasttoken",
    "weightedmean": "weightedmean_tokens",
}
# The poolings that a module Pooling may have.
READ_POOLINGS = ("cls", "mean", "max", "weightedmean", "lasttoken")
# The settings of sentence-transformers' Transformer module.
TRANSFORMER_CONFIG = "sentence_bert_config.json"
# Old releases named that file after the kind of model.
TRANSFORMER_CONFIGS = "sentence_*_config.json"
# Those of the settings that may change the vectors and are not used here.
UNUSED_SETTINGS = (
    "model_args",
    "model_kwargs",
    "config_args",
    "config_kwargs",
    "tokenizer_args",
    "transformer_task",
)
# Values of these settings that change nothing.
HARMLESS_VALUES: tuple[object, ...] = (
    None,
    {},
    {"add_pooling_layer": False},
    "feature-extraction",
)
# The modules that have no settings, so that their folder may be missing.
WITHOUT_SETTINGS = ("Normalize", "Dropout")


def head(code: H) -> H:
    """A decorator that registers a subclass of `Head`, under the last part of its `type_name`."""
    return HEADS.adding(code.type_name.rpartition(".")[2])(code)


@dataclass(frozen=True)
class Modules:
    """What an encoder's folder says."""

    transformer: Path
    """The folder of the language model."""
    pooling: Pooling = field(default_factory=Pooling)
    """From the model's hidden states to a vector."""
    heads: Sequence[Head] = ()
    """The modules after the pooling."""
    max_length: int | None = None
    """Tokens that a sentence is cut to; None where only the model's own limits count."""
    lowercase: bool = False
    """Whether text is lowercased before the tokenizer."""
    prompt: str = ""
    """Text put before every sentence; what is put after it is in the tokenizer."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """config_sentence_transformers.json as it is, with settings that isotune doesn't use."""
    token_weights: Tensor | None = None
    """[vocabulary] each token's weight in pooling mean; None for equal weights."""


def read_modules(folder: Path) -> Modules:
    """Reads a sentence-transformers folder.

    A plain language model gets the mean of its last layer; if its tokens see only those before
    them, it gets the last token, which alone sees the whole text.
    """
    if not (folder / MODULES).exists():
        with load_errors(folder):
            config = read_json(folder / "config.json")
            is_causal = kind_of(config).is_causal(config)
        if is_causal:
            return Modules(folder, Pooling("lasttoken"))
        return Modules(folder)
    kinds = AttributeError, KeyError, RuntimeError, TypeError, ValueError
    with as_input_error(
        kinds, f"model {folder}: its sentence-transformers files can't be understood"
    ):
        plugins = read_json(folder / PLUGINS, missing_ok=True)
        for plugin in require_plugins(plugins, f"encoder {folder}"):
            logger.warning(
                "encoder %s: the plugin %s has changed since it was saved", folder, plugin
            )
        return _read(folder)


def _read(folder: Path) -> Modules:
    settings = read_json(folder / "config_sentence_transformers.json", missing_ok=True)
    _check_settings(folder, settings)
    modules = Modules(folder, prompt=_default_prompt(folder, settings), settings=settings)
    kinds = set()
    for module in read_json(folder / MODULES):
        kinds.add(module["type"].rpartition(".")[2])
        modules = _read_module(folder, module, modules)
    if not kinds & {"Pooling", "RegisteredPooling"}:
        raise InputError(
            f"model {folder}: modules.json names no Pooling, so it makes no sentence vectors"
        )
    config = _transformer_config(modules.transformer)
    return replace(
        modules,
        max_length=config.get("max_seq_length"),
        lowercase=bool(config.get("do_lower_case")),
    )


def _check_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Refuses a cut to no number of features, and warns of another similarity."""
    kept = settings.get(TRUNCATE_DIM)
    if kept is not None and (type(kept) is not int or kept < 1):
        raise InputError(
            f"model {folder}: {TRUNCATE_DIM} {kept!r:.50} in config_sentence_transformers.json; it "
            "has to be a number of features"
        )
    similarity = settings.get("similarity_fn_name") or "cosine"
    if similarity != "cosine":
        logger.warning(
            "model %s: it is meant for similarity %s; isotune compares by cosine",
            folder,
            similarity,
        )


def _default_prompt(folder: Path, settings: Mapping[str, Any]) -> str:
    """The prompt that the settings name for every sentence; a prompt that is null is no text."""
    name = settings.get("default_prompt_name")
    if not name:
        return ""
    prompts = settings.get("prompts") or {}
    prompt = ""
    if prompts.get(name) is not None:
        prompt = prompts[name]
    if name not in prompts or not isinstance(prompt, str):
        raise InputError(
            f"model {folder}: default_prompt_name {name!r} names no text among its prompts"
        )
    return prompt


def _read_module(folder: Path, module: Mapping[str, Any], modules: Modules) -> Modules:
    """Adds a module of modules.json to those that were read before."""
    type_name = module["type"]
    source, _, kind = type_name.rpartition(".")
    place = inside(folder, module["path"])
    if place.is_dir():
        check_files(place)
    elif kind not in WITHOUT_SETTINGS:
        raise InputError(
            f"model {folder}: modules.json names {module['path']}, which is no folder; fetch it "
            "again"
        )
    is_common = source.partition(".")[0] in ("sentence_transformers", "isotune")
    if is_common and kind in READERS:
        return READERS[kind](place, modules)
    if kind in HEADS and (is_common or type_name == HEADS[kind].type_name):
        return replace(modules, heads=[*modules.heads, read_head(HEADS[kind], place)])
    names = ", ".join([*READERS, *HEADS])
    raise InputError(
        f"model {folder}: a module {type_name}; supported are sentence-transformers' {names}"
    )


def _transformer_config(folder: Path) -> dict[str, Any]:
    """The settings of the language model's folder; warns of those that are not used here."""
    paths = sorted(folder.glob(TRANSFORMER_CONFIGS))
    if not paths:
        return {}
    config: dict[str, Any] = read_json(paths[0])
    ignored = [key for key in UNUSED_SETTINGS if config.get(key) not in HARMLESS_VALUES]
    if ignored:
        logger.warning(
            "model %s: %s is ignored, so its vectors may differ", folder, ", ".join(ignored)
        )
    return config


def _read_layer_weights(place: Path, modules: Modules) -> Modules:
    """The layers whose weight is not 0."""
    first = read_json(place / "config.json")["layer_start"]
    with load_errors(place):
        shares = read_tensors(place)["layer_weights"].tolist()
    weights = {layer: share for layer, share in enumerate(shares, first) if share}
    pooling = replace(modules.pooling, layers=tuple(weights), weights=tuple(weights.values()))
    return replace(modules, pooling=pooling)


def _read_word_weights(place: Path, modules: Modules) -> Modules:
    """The tokens' weights.

    If only the mask token has one, the mean over tokens is the vector at the mask.
    """
    config = read_json(place / "config.json")
    word_weights = config["word_weights"]
    unknown_weight = config["unknown_word_weight"]
    if word_weights in ({"[MASK]": 1.0}, {"<mask>": 1.0}) and not unknown_weight:
        return _with_mode(modules, "mask", place)
    numbers = []
    for word in config["vocab"]:
        lowercased = word_weights.get(word.lower(), unknown_weight)
        numbers.append(word_weights.get(word, lowercased))
    weights = torch.tensor(numbers)
    if weights.ndim != 1 or not (weights.isfinite() & (weights >= 0)).all():
        raise InputError(f"model {place}: weights of words that are not numbers of 0 or more")
    return _with_mode(replace(modules, token_weights=weights.float()), modules.pooling.mode, place)


def _read_pooling(place: Path, modules: Modules) -> Modules:
    config = read_json(place / "config.json")
    modes = _pooling_modes(config)
    if len(modes) != 1 or modes[0] not in READ_POOLINGS:
        raise InputError(
            f"model {place}: pooling {' + '.join(modes) or 'without a mode'}; supported is one of "
            f"{', '.join(READ_POOLINGS)}"
        )
    if not config.get("include_prompt", True) and _has_prompt(modules):
        raise InputError(
            f"model {place}: it leaves its prompt out of the pooling, which is not supported"
        )
    return _with_mode(modules, modes[0], place)


def _pooling_modes(config: Mapping[str, Any]) -> list[str]:
    """The modes of a module Pooling, by their name or by older releases' flags."""
    modes = config.get("pooling_mode")
    if isinstance(modes, str) and modes:
        return [modes]
    if modes:
        return list(modes)
    prefix = "pooling_mode_"
    flags = [
        key.removeprefix(prefix) for key, on in config.items() if key.startswith(prefix) and on
    ]
    return [flag.removesuffix("_tokens").removesuffix("_token") for flag in flags]


def _has_prompt(modules: Modules) -> bool:
    prompts = modules.settings.get("prompts") or {}
    return bool(modules.prompt) or any(prompts.values())


def _read_registered_pooling(place: Path, modules: Modules) -> Modules:
    config = read_json(place / "config.json")
    weights = config.get("weights")
    if weights:
        weights = tuple(weights)
    pooling = replace(modules.pooling, layers=tuple(config["layers"]), weights=weights)
    return _with_mode(replace(modules, pooling=pooling), config["mode"], place)


def _with_mode(modules: Modules, mode: str, place: Path) -> Modules:
    """Sets the pooling's mode; WordWeights for the mask and a mean stay "mask", in either order."""
    modes = {modules.pooling.mode, mode}
    fits_mask = "mask" not in modes or modes == {"mask", "mean"}
    fits_weights = modules.token_weights is None or mode == "mean"
    if not fits_mask or not fits_weights:
        raise InputError(
            f"model {place}: WordWeights and pooling {mode}; WordWeights are supported with "
            "pooling mean"
        )
    if "mask" in modes:
        mode = "mask"
    return replace(modules, pooling=replace(modules.pooling, mode=mode))


# What adds a module's folder to the modules read so far, by the last part of the module's type.
# Dropout does nothing outside training.
READERS: Mapping[str, Callable[[Path, Modules], Modules]] = {
    "Transformer": lambda place, modules: replace(modules, transformer=place),
    "WeightedLayerPooling": _read_layer_weights,
    "WordWeights": _read_word_weights,
    "Pooling": _read_pooling,
    "RegisteredPooling": _read_registered_pooling,
    "Dropout": lambda place, modules: modules,
}


def read_head(head_class: type[Head], place: Path) -> Head:
    """Reads a head and its weights."""
    config = read_json(place / "config.json", missing_ok=True)
    with load_errors(place):
        head = head_class.from_config(config)
        if head.state_dict():
            head.load_state_dict(read_tensors(place))
    return head


def write_module(place: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Writes the settings of a module, and its tensors if it has any, into an existing folder."""
    write_json(place / "config.json", config)
    if tensors:
        contiguous = {key: value.contiguous() for key, value in tensors.items()}
        with rust_writes():
            save_file(contiguous, place / "model.safetensors")


def read_tensors(place: Path) -> dict[str, Tensor]:
    """Reads the tensors of a module's folder, within `load_errors`.

    They are read from pytorch_model.bin if that is all there is.
    """
    pickled = place / "pytorch_model.bin"
    safe = place / "model.safetensors"
    if safe.exists() or not pickled.exists():
        return load_file(safe)
    note_pickle(place)
    return dict(torch.load(pickled, map_location="cpu", weights_only=True))


def write_json(path: Path, content: Any) -> None:
    """Writes a JSON file that a person can read."""
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8", newline="\n")

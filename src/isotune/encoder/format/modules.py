"""An encoder's folder in sentence-transformers' format: a language model, and the modules that make sentence vectors.

Every release of sentence-transformers reads the written folders. It imports modules that only isotune has from
`isotune.encoder.st_modules`. A module or setting that is not supported here is an error, because without it the vectors
would differ.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from isotune.encoder.finished import MODULES
from isotune.encoder.format.pretrained import check_files, load_errors, note_pickle, quiet
from isotune.encoder.format.prompt import fill_mask, save_tokenizer, split_prompt, with_suffix
from isotune.encoder.heads import Dense, Head, Normalize, NormalizingFlow
from isotune.encoder.model import SentenceModel
from isotune.encoder.options import POOLINGS
from isotune.encoder.pooling import Pooling
from isotune.errors import InputError, telling
from isotune.files import inside, read_json, rust_writes
from isotune.plugins import plugins_of, require_plugins
from isotune.registry import Registry

logger = logging.getLogger(__name__)
H = TypeVar("H", bound=type[Head])

# The heads by the last part of the type that modules.json names: Dense, Flow, Normalize.
HEADS: Registry[type[Head]] = Registry(
    "head",
    {head.type_name.rpartition(".")[2]: head for head in (Dense, NormalizingFlow, Normalize)},
)
PLUGINS = "plugins.json"  # the plugins whose code makes the vectors; there only if there are any
# sentence-transformers' flag for each pooling; for mask, WordWeights silences all other tokens.
FLAGS = {
    "cls": "cls_token",
    "mean": "mean_tokens",
    "mask": "mean_tokens",
    "max": "max_tokens",
    "weightedmean": "weightedmean_tokens",
}
# The settings of sentence-transformers' Transformer module. Old releases named the file after the kind of model.
TRANSFORMER_CONFIG, TRANSFORMER_CONFIGS = "sentence_bert_config.json", "sentence_*_config.json"
# Those of the settings that may change the vectors and are not used here, and their values that change nothing.
DECIDES = (
    "model_args",
    "model_kwargs",
    "config_args",
    "config_kwargs",
    "tokenizer_args",
    "transformer_task",
)
NOTHING_ELSE: tuple[object, ...] = ({}, {"add_pooling_layer": False}, "feature-extraction")


def head(code: H) -> H:
    """A decorator that registers a subclass of `Head`, under the last part of its `type_name`."""
    return HEADS.adding(code.type_name.rpartition(".")[2])(code)


@dataclass(frozen=True)
class Modules:
    """What an encoder's folder says."""

    transformer: Path  # the folder of the language model
    pooling: Pooling = field(default_factory=Pooling)  # from the model's hidden states to a vector
    heads: Sequence[Head] = ()  # the modules after the pooling
    max_length: int | None = (
        None  # tokens that a sentence is cut to; None where only the model's own limits count
    )
    lowercase: bool = False  # whether text is lowercased before the tokenizer
    prompt: str = ""  # text put before every sentence; what is put after it is in the tokenizer
    # config_sentence_transformers.json as it is, with settings that isotune doesn't use.
    settings: Mapping[str, Any] = field(default_factory=dict)
    token_weights: Tensor | None = (
        None  # [vocabulary] each token's weight in pooling mean; None for equal weights
    )


def read_modules(folder: Path) -> Modules:
    """Reads a sentence-transformers folder; a plain language model gets the mean of its last layer."""
    if not (folder / MODULES).exists():
        return Modules(folder)
    kinds = AttributeError, KeyError, RuntimeError, TypeError, ValueError
    with telling(kinds, f"model {folder}: its sentence-transformers files can't be understood"):
        for changed in require_plugins(
            read_json(folder / PLUGINS, missing_ok=True), f"encoder {folder}"
        ):
            logger.warning(
                "encoder %s: the plugin %s has changed since it was saved", folder, changed
            )
        return _read(folder)


def _read(folder: Path) -> Modules:
    settings = read_json(folder / "config_sentence_transformers.json", missing_ok=True)
    if settings.get("truncate_dim"):
        cut = settings["truncate_dim"]
        raise InputError(
            f"model {folder}: truncate_dim {cut} is not supported; remove it, and cut vectors yourself"
        )
    if (similarity := settings.get("similarity_fn_name") or "cosine") != "cosine":
        logger.warning(
            "model %s: it is meant for similarity %s; isotune compares by cosine",
            folder,
            similarity,
        )
    name, prompts = settings.get("default_prompt_name"), settings.get("prompts") or {}
    prompt = (prompts.get(name, 0) or "") if name else ""  # one that is null is no text
    if name and (name not in prompts or not isinstance(prompt, str)):
        raise InputError(
            f"model {folder}: default_prompt_name {name!r} names no text among its prompts"
        )
    parts = Modules(folder, prompt=prompt, settings=settings)
    kinds = []
    for module in read_json(folder / MODULES):
        source, _, kind = module["type"].rpartition(".")
        place = inside(folder, module["path"])
        kinds.append(kind)
        ours = source.partition(".")[0] in ("sentence_transformers", "isotune")
        if place.is_dir():
            check_files(place)
        elif kind not in ("Normalize", "Dropout"):  # which have no settings
            raise InputError(
                f"model {folder}: modules.json names {module['path']}, which is no folder; fetch it again"
            )
        if ours and kind in READERS:
            parts = READERS[kind](place, parts)
        elif kind in HEADS and (ours or module["type"] == HEADS[kind].type_name):
            parts = replace(parts, heads=[*parts.heads, read_head(HEADS[kind], place)])
        else:
            known = ", ".join([*READERS, *HEADS])
            raise InputError(
                f"model {folder}: a module {module['type']}; supported are sentence-transformers' {known}"
            )
    if not {"Pooling", "RegisteredPooling"}.intersection(kinds):
        raise InputError(
            f"model {folder}: modules.json names no Pooling, so it makes no sentence vectors"
        )
    config: dict[str, Any] = next(
        map(read_json, sorted(parts.transformer.glob(TRANSFORMER_CONFIGS))), {}
    )
    if ignored := [key for key in DECIDES if config.get(key) not in (*NOTHING_ELSE, None)]:
        logger.warning(
            "model %s: %s is ignored, so its vectors may differ",
            parts.transformer,
            ", ".join(ignored),
        )
    return replace(
        parts, max_length=config.get("max_seq_length"), lowercase=bool(config.get("do_lower_case"))
    )


def _read_layer_weights(place: Path, parts: Modules) -> Modules:
    first = read_json(place / "config.json")["layer_start"]
    with load_errors(place):
        shares = read_tensors(place)["layer_weights"].tolist()
    layers, weights = zip(
        *((first + i, share) for i, share in enumerate(shares) if share), strict=True
    )
    return replace(parts, pooling=replace(parts.pooling, layers=layers, weights=weights))


def _read_word_weights(place: Path, parts: Modules) -> Modules:
    """The tokens' weights. If only the mask token has one, the mean over tokens is the vector at the mask."""
    config = read_json(place / "config.json")
    of_words, otherwise = config["word_weights"], config["unknown_word_weight"]
    if list(of_words.items()) in ([("[MASK]", 1.0)], [("<mask>", 1.0)]) and not otherwise:
        return _with_mode(parts, "mask", place)
    weights = torch.tensor(
        [of_words.get(word, of_words.get(word.lower(), otherwise)) for word in config["vocab"]]
    )
    if weights.ndim != 1 or not (weights.isfinite() & (weights >= 0)).all():
        raise InputError(f"model {place}: weights of words that are not numbers of 0 or more")
    return _with_mode(replace(parts, token_weights=weights.float()), parts.pooling.mode, place)


def _read_pooling(place: Path, parts: Modules) -> Modules:
    config = read_json(place / "config.json")
    modes = config.get("pooling_mode") or [
        key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
        for key, on in config.items()
        if key.startswith("pooling_mode_") and on
    ]
    modes = [modes] if isinstance(modes, str) else list(modes)
    if len(modes) != 1 or modes[0] not in ("cls", "mean", "max", "weightedmean"):
        raise InputError(
            f"model {place}: pooling {' + '.join(modes) or 'without a mode'}; supported is one of cls, mean, max, "
            "weightedmean"
        )
    if not config.get("include_prompt", True) and (
        parts.prompt or any((parts.settings.get("prompts") or {}).values())
    ):
        raise InputError(
            f"model {place}: it leaves its prompt out of the pooling, which is not supported"
        )
    return _with_mode(parts, modes[0], place)


def _read_registered_pooling(place: Path, parts: Modules) -> Modules:
    config = read_json(place / "config.json")
    weights = config.get("weights")
    pooling = replace(
        parts.pooling, layers=tuple(config["layers"]), weights=weights and tuple(weights)
    )
    return _with_mode(replace(parts, pooling=pooling), config["mode"], place)


def _with_mode(parts: Modules, mode: str, place: Path) -> Modules:
    """Sets the pooling's mode; WordWeights for the mask and a mean stay "mask", in either order."""
    modes = {parts.pooling.mode, mode}
    if ("mask" in modes and modes != {"mask", "mean"}) or (
        parts.token_weights is not None and mode != "mean"
    ):
        raise InputError(
            f"model {place}: WordWeights and pooling {mode}; WordWeights are supported with pooling mean"
        )
    return replace(parts, pooling=replace(parts.pooling, mode="mask" if "mask" in modes else mode))


# What adds a module's folder to the parts read so far, by the last part of the module's type.
READERS: Mapping[str, Callable[[Path, Modules], Modules]] = {
    "Transformer": lambda place, parts: replace(parts, transformer=place),
    "WeightedLayerPooling": _read_layer_weights,
    "WordWeights": _read_word_weights,
    "Pooling": _read_pooling,
    "RegisteredPooling": _read_registered_pooling,
    "Dropout": lambda place, parts: parts,  # it does nothing outside training
}


def write_modules(encoder: SentenceModel, folder: Path) -> None:
    """Writes a sentence-transformers folder into an empty folder."""
    _write_language_model(encoder, folder)
    # The types are names that every release of sentence-transformers understands.
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
    ]
    heads = ((head.type_name, head.config(), head.state_dict()) for head in encoder.heads)
    for i, (type_name, config, weights) in enumerate([*_pooling_modules(encoder), *heads], 1):
        place = f"{i}_{type_name.rpartition('.')[2]}"
        (folder / place).mkdir()
        write_module(folder / place, config, weights)
        modules.append({"idx": i, "name": str(i), "path": place, "type": type_name})
    write_json(folder / MODULES, modules)
    if used := plugins_of([POOLINGS[encoder.pooling.mode], *map(type, encoder.heads)]):
        write_json(folder / PLUGINS, used)
    write_json(folder / "config_sentence_transformers.json", _settings(encoder))
    for weights_file in folder.rglob("*.safetensors"):
        # safetensors lets only the owner read its files; an encoder may be served by another user.
        weights_file.chmod((folder / MODULES).stat().st_mode)


def _write_language_model(encoder: SentenceModel, folder: Path) -> None:
    model, tokenizer, pooling = encoder.language_model, encoder.tokenizer, encoder.pooling
    blocks = encoder.backbone.layers
    model.config.output_hidden_states = (
        pooling.numbered(blocks).layers != (blocks,) or pooling.mode not in FLAGS
    )
    with quiet(), rust_writes():
        model.save_pretrained(folder)
    model.config.output_hidden_states = False
    tokenizer.model_max_length = encoder.max_length
    if tokenizer.is_fast:
        tokenizer.backend_tokenizer.no_truncation()  # else tokenizer.json would keep the last call's truncation
    _, after = split_prompt(encoder.prompt, encoder.lowercase)
    if after:
        save_tokenizer(with_suffix(tokenizer, after), folder)
    else:
        with rust_writes():
            tokenizer.save_pretrained(folder)
    config: dict[str, Any] = {
        "max_seq_length": encoder.max_length,
        "do_lower_case": encoder.lowercase,
    }
    if getattr(model.base_model, "pooler", model) is None:
        config["model_args"] = {"add_pooling_layer": False}
    write_json(folder / TRANSFORMER_CONFIG, config)


def _pooling_modules(
    encoder: SentenceModel,
) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Tensor]]]:
    pooling, blocks = encoder.pooling, encoder.backbone.layers
    dimension = {"word_embedding_dimension": encoder.backbone.dimension}
    shares = pooling.resolve(blocks)
    if pooling.mode not in FLAGS:
        config = {
            **dimension,
            "mode": pooling.mode,
            "layers": list(shares),
            "weights": pooling.weights,
        }
        yield "isotune.encoder.st_modules.RegisteredPooling", config, {}
        return
    if set(shares) != {blocks}:
        weights = torch.tensor([shares.get(layer, 0.0) for layer in range(blocks + 1)])
        config = {**dimension, "layer_start": 0, "num_hidden_layers": blocks}
        yield (
            "sentence_transformers.models.WeightedLayerPooling",
            config,
            {"layer_weights": weights},
        )
    if pooling.mode == "mask" or (pooling.mode == "mean" and encoder.token_weights is not None):
        yield "sentence_transformers.models.WordWeights", _word_weights(encoder), {}
    config = {f"pooling_mode_{flag}": flag == FLAGS[pooling.mode] for flag in FLAGS.values()}
    yield (
        "sentence_transformers.models.Pooling",
        {**dimension, **config, "include_prompt": True},
        {},
    )


def _word_weights(encoder: SentenceModel) -> dict[str, Any]:
    tokenizer = encoder.tokenizer
    ids = list(range(encoder.backbone.model.config.vocab_size))
    # An id without a token is an empty word: sentence-transformers takes no null.
    vocabulary = [token or "" for token in tokenizer.convert_ids_to_tokens(ids)]
    if encoder.pooling.mode == "mask" or encoder.token_weights is None:
        return {
            "vocab": vocabulary,
            "word_weights": {tokenizer.mask_token: 1.0},
            "unknown_word_weight": 0.0,
        }
    of_words = dict(zip(vocabulary, encoder.token_weights.tolist(), strict=True))
    return {"vocab": vocabulary, "word_weights": of_words, "unknown_word_weight": 1.0}


def _settings(encoder: SentenceModel) -> dict[str, Any]:
    before, _ = split_prompt(encoder.prompt, encoder.lowercase)
    settings = {
        "prompts": {},
        "default_prompt_name": None,
        "similarity_fn_name": "cosine",
        **encoder.settings,
    }
    settings["__version__"] = {
        "transformers": transformers.__version__,
        "pytorch": torch.__version__,
    }
    name = (settings["default_prompt_name"] or "default") if before else None
    if name:
        settings["prompts"] = {**settings["prompts"], name: fill_mask(before, encoder.tokenizer)}
    return {**settings, "default_prompt_name": name}


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
        with rust_writes():
            save_file(
                {key: value.contiguous() for key, value in tensors.items()},
                place / "model.safetensors",
            )


def read_tensors(place: Path) -> dict[str, Tensor]:
    """Reads the tensors of a module's folder, within `load_errors`; from pytorch_model.bin if that is all there is."""
    pickled, safe = place / "pytorch_model.bin", place / "model.safetensors"
    if safe.exists() or not pickled.exists():
        return load_file(safe)
    note_pickle(place)
    return dict(torch.load(pickled, map_location="cpu", weights_only=True))


def write_json(path: Path, content: Any) -> None:
    """Writes a JSON file that a person can read."""
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")

"""The sentence-transformers form of an encoder: what makes sentence vectors of a language model.

Reading and writing are symmetric: both go through `Modules`. What is written, every release of sentence-transformers
reads, except for heads that only isotune has: those it imports from here (`st_modules`), and wants to be told so,
`SentenceTransformer(folder, trust_remote_code=True)`. What is read and can't be honoured is an error, since leaving
it out would give other vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from isotune.encoder.format.module_folder import (
    read_head,
    read_json,
    read_tensors,
    write_head,
    write_json,
    write_module,
)
from isotune.encoder.format.pretrained import quiet
from isotune.encoder.format.prompt import fill_mask, save_with_suffix, split_prompt, with_suffix
from isotune.encoder.heads import Dense, Head, Normalize, NormalizingFlow
from isotune.encoder.options import PoolingMode
from isotune.encoder.pooling import Pooling
from isotune.errors import InputError

# The heads by the last part of the type that modules.json names: Dense, Flow, Normalize.
HEADS: Mapping[str, type[Head]] = {
    head.type_name.rpartition(".")[2]: head for head in (Dense, NormalizingFlow, Normalize)
}

# Where sentence-transformers keeps the settings of its Transformer module; old releases named the file by the model.
TRANSFORMER_CONFIGS = (
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
)


@dataclass(frozen=True)
class Modules:
    """What makes a sentence encoder of a language model.

    Attributes:
        transformer: folder of the language model.
        pooling: from its hidden states to a vector.
        heads: what comes after the pooling.
        max_length: tokens a sentence is cut to; None where only the model's own limits count.
        lowercase: text is lowercased before the tokenizer.
        prompt: text put before every sentence, or around it; what stands after it is read from the tokenizer instead.
        settings: config_sentence_transformers.json as it is, for what isn't used here (named prompts, similarity).
    """

    transformer: Path
    pooling: Pooling = field(default_factory=Pooling)
    heads: Sequence[Head] = ()
    max_length: int | None = None
    lowercase: bool = False
    prompt: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


def read_modules(folder: Path) -> Modules:
    """What a sentence-transformers folder says; for a plain language model, the mean of its last layer.

    Raises:
        InputError: it has a module or an option that isn't known here; leaving it out would give other vectors.
    """
    if not (folder / "modules.json").exists():
        return Modules(folder)
    try:
        return _read(folder)
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise InputError(f"model {folder}: its sentence-transformers files can't be understood ({reason})") from error


@dataclass
class _Draft:
    """What the modules read so far say about the encoder.

    Attributes:
        transformer: folder of the language model.
        prompt: text put before every sentence.
        mode: of the pooling; None until a module names it.
        layers, weights: as `Pooling` has them.
        mask_only: only mask tokens count in the pooling.
        heads: the modules after the pooling.
    """

    transformer: Path
    prompt: str
    mode: PoolingMode | None = None
    layers: tuple[int, ...] = (-1,)
    weights: tuple[float, ...] | None = None
    mask_only: bool = False
    heads: list[Head] = field(default_factory=list)


def _read(folder: Path) -> Modules:
    settings = read_json(folder / "config_sentence_transformers.json", missing_ok=True)
    prompt_name = settings.get("default_prompt_name")
    draft = _Draft(folder, settings["prompts"][prompt_name] if prompt_name else "")
    for module in read_json(folder / "modules.json"):
        kind = module["type"].rpartition(".")[2]
        if kind not in READERS:
            raise InputError(f"model {folder}: it has a module {module['type']}; known are {', '.join(READERS)}")
        READERS[kind](folder / module["path"], draft)
    if draft.mask_only and draft.mode != "mean":
        raise InputError(f"model {folder}: WordWeights and then pooling {draft.mode}; known is mean after it")
    if draft.mode is None:
        raise InputError(f"model {folder}: modules.json names no Pooling, so it makes no sentence vectors")
    option_files = (draft.transformer / name for name in TRANSFORMER_CONFIGS)
    options: dict[str, Any] = next((read_json(path) for path in option_files if path.exists()), {})
    max_length = options.get("max_seq_length")
    return Modules(
        draft.transformer,
        Pooling("mask" if draft.mask_only else draft.mode, draft.layers, draft.weights),
        draft.heads,
        max_length=None if max_length is None else int(max_length),
        lowercase=bool(options.get("do_lower_case")),
        prompt=draft.prompt,
        settings=settings,
    )


def _read_transformer(place: Path, draft: _Draft) -> None:
    draft.transformer = place


def _read_pooling(place: Path, draft: _Draft) -> None:
    """A sentence-transformers Pooling with one mode, in its old or its new notation."""
    config = read_json(place / "config.json")
    modes = config.get("pooling_mode") or [
        key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
        for key, on in config.items()
        if key.startswith("pooling_mode_") and on
    ]
    modes = [modes] if isinstance(modes, str) else list(modes)
    if len(modes) != 1 or modes[0] not in ("cls", "mean", "max", "weightedmean"):
        raise InputError(f"model {place}: pooling {' + '.join(modes)}; known is one of cls, mean, max, weightedmean")
    if draft.prompt and not config.get("include_prompt", True):
        raise InputError(f"model {place}: it leaves its prompt out of the pooling, which is not known here")
    draft.mode = modes[0]


def _read_layer_weights(place: Path, draft: _Draft) -> None:
    """Averages layers before the pooling; layers of weight 0 are left out."""
    first = read_json(place / "config.json")["layer_start"]
    weights = read_tensors(place)["layer_weights"].tolist()
    draft.layers, draft.weights = zip(*((first + i, weight) for i, weight in enumerate(weights) if weight), strict=True)


def _read_wk_pooling(place: Path, draft: _Draft) -> None:
    draft.mode, draft.layers = "wk", tuple(read_json(place / "config.json")["layers"])


def _read_word_weights(place: Path, draft: _Draft) -> None:
    """Only the mask token has a weight, so the mean over tokens is the vector at the mask."""
    config = read_json(place / "config.json")
    words = list(config["word_weights"].items())
    if words not in ([("[MASK]", 1.0)], [("<mask>", 1.0)]) or config["unknown_word_weight"]:
        raise InputError(f"model {place}: weights of words are not known here, but for 1 for the mask token alone")
    draft.mask_only = True


def _read_head(head_class: type[Head], place: Path, draft: _Draft) -> None:
    draft.heads.append(read_head(head_class, place))


def _ignore(place: Path, draft: _Draft) -> None:
    """Dropout does nothing outside training."""


# What reads the folder of a module into the draft, by the last part of the module's type.
READERS: Mapping[str, Callable[[Path, _Draft], None]] = {
    "Transformer": _read_transformer,
    "WeightedLayerPooling": _read_layer_weights,
    "WordWeights": _read_word_weights,
    "Pooling": _read_pooling,
    "WKPooling": _read_wk_pooling,
    "Dropout": _ignore,
    **{name: partial(_read_head, head_class) for name, head_class in HEADS.items()},
}


def write_modules(parts: Modules, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Writes a sentence-transformers folder into the empty folder `parts.transformer`; `model` may have a head."""
    folder, pooling = parts.transformer, parts.pooling
    model.config.output_hidden_states = pooling.needs_all_layers(model.config.num_hidden_layers)
    with quiet():
        model.save_pretrained(folder)
    model.config.output_hidden_states = False
    tokenizer.model_max_length = parts.max_length
    if tokenizer.is_fast:
        tokenizer.backend_tokenizer.no_truncation()  # or tokenizer.json would keep what the last call cut to
    before, after = split_prompt(parts.prompt.lower() if parts.lowercase else parts.prompt)
    if after:
        save_with_suffix(with_suffix(tokenizer, after), folder)
    else:
        tokenizer.save_pretrained(folder)
    # Type and place; the names that every release of sentence-transformers understands.
    modules = [("sentence_transformers.models.Transformer", "")]

    def add(type_name: str) -> Path:
        place = f"{len(modules)}_{type_name.rpartition('.')[2]}"
        modules.append((type_name, place))
        (folder / place).mkdir()
        return folder / place

    _write_pooling(add, pooling, model, tokenizer)
    for head in parts.heads:
        write_head(head, add(head.type_name))
    write_json(
        folder / "modules.json",
        [{"idx": i, "name": str(i), "path": place, "type": name} for i, (name, place) in enumerate(modules)],
    )
    config: dict[str, Any] = {"max_seq_length": parts.max_length, "do_lower_case": parts.lowercase}
    if getattr(model.base_model, "pooler", model) is None:
        config["model_args"] = {"add_pooling_layer": False}
    write_json(folder / TRANSFORMER_CONFIGS[0], config)
    versions = {"__version__": {"transformers": transformers.__version__, "pytorch": torch.__version__}}
    settings = {
        "prompts": {},
        "default_prompt_name": None,
        "similarity_fn_name": "cosine",
        **parts.settings,
        **versions,
    }
    if before:
        name = settings["default_prompt_name"] or "default"
        prompts = {**settings["prompts"], name: fill_mask(before, tokenizer)}
        settings |= {"prompts": prompts, "default_prompt_name": name}
    else:
        settings["default_prompt_name"] = None
    write_json(folder / "config_sentence_transformers.json", settings)
    for weights_file in folder.rglob("*.safetensors"):
        # safetensors makes files for their owner alone; an encoder is there to be served.
        weights_file.chmod((folder / "modules.json").stat().st_mode)


def _write_pooling(
    add: Callable[[str], Path], pooling: Pooling, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Writes the modules that make the sentence vector; `add` makes the folder of the next one."""
    blocks, dimension = model.config.num_hidden_layers, model.config.hidden_size
    shares = pooling.resolve(blocks)
    if pooling.mode == "wk":
        config = {"word_embedding_dimension": dimension, "layers": sorted(shares)}
        write_module(add("isotune.encoder.st_modules.WKPooling"), config)
        return
    if pooling.needs_all_layers(blocks):
        weights = torch.tensor([shares.get(layer, 0.0) for layer in range(blocks + 1)])
        config = {"word_embedding_dimension": dimension, "layer_start": 0, "num_hidden_layers": blocks}
        write_module(add("sentence_transformers.models.WeightedLayerPooling"), config, {"layer_weights": weights})
    if pooling.mode == "mask":
        # The mean over tokens of which all but the mask weigh nothing.
        vocabulary = tokenizer.convert_ids_to_tokens(list(range(model.config.vocab_size)))
        marks = {"vocab": vocabulary, "word_weights": {tokenizer.mask_token: 1.0}, "unknown_word_weight": 0.0}
        write_module(add("sentence_transformers.models.WordWeights"), marks)
    modes = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens", "weightedmean": "weightedmean_tokens"}
    summary = "mean" if pooling.mode == "mask" else pooling.mode
    flags = {f"pooling_mode_{flag}": mode == summary for mode, flag in modes.items()}
    config = {"word_embedding_dimension": dimension, **flags, "include_prompt": True}
    write_module(add("sentence_transformers.models.Pooling"), config)

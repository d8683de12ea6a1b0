"""The sentence-transformers form of an encoder: what makes sentence vectors of a language model.

Reading and writing are symmetric: both go through `Modules`. What is written, every release of sentence-transformers
reads, except for heads that only isotune has: those it imports from here (`st_modules`), and wants to be told so,
`SentenceTransformer(folder, trust_remote_code=True)`. What is read and can't be honoured is an error, since leaving
it out would give other vectors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from isotune.encoder.format.pretrained import quiet
from isotune.encoder.format.prompt import fill_mask, save_with_suffix, split_prompt, with_suffix
from isotune.encoder.heads.flow import Flow
from isotune.encoder.heads.head import Dense, Head, Normalize
from isotune.encoder.pooling import Pooling
from isotune.errors import InputError

# The heads by what modules.json calls them, after the last dot.
HEADS: Mapping[str, type[Head]] = {"Dense": Dense, "Flow": Flow, "Normalize": Normalize}

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


def _read(folder: Path) -> Modules:
    transformer, mode, layers, weights, masked = folder, None, (-1,), None, False
    heads: list[Head] = []
    settings = _json(folder / "config_sentence_transformers.json", missing_ok=True)
    name = settings.get("default_prompt_name")
    prompt = settings["prompts"][name] if name else ""
    for module in _json(folder / "modules.json"):
        kind, place = module["type"].rpartition(".")[2], folder / module["path"]
        if kind == "Transformer":
            transformer = place
        elif kind == "Pooling":
            mode = _pooling_mode(_json(place / "config.json"), place, prompt)
        elif kind == "WeightedLayerPooling":
            first = _json(place / "config.json")["layer_start"]
            shares = _weights(place)["layer_weights"].tolist()
            layers, weights = zip(*((first + i, w) for i, w in enumerate(shares) if w), strict=True)
        elif kind == "WKPooling":
            mode, layers = "wk", tuple(_json(place / "config.json")["layers"])
        elif kind == "WordWeights":
            masked = _only_mask(_json(place / "config.json"), place)
        elif kind in HEADS:
            heads.append(read_head(HEADS[kind], place))
        elif kind != "Dropout":  # which does nothing outside training
            raise InputError(
                f"model {folder}: it has a module {module['type']}; known are Transformer, WeightedLayerPooling, "
                f"WordWeights, Pooling, WKPooling, {', '.join(HEADS)}"
            )
    if masked and mode != "mean":
        raise InputError(f"model {folder}: WordWeights and then pooling {mode}; known is mean after it")
    if mode is None:
        raise InputError(f"model {folder}: modules.json names no Pooling, so it makes no sentence vectors")
    found = [path for name in TRANSFORMER_CONFIGS if (path := transformer / name).exists()]
    options = _json(found[0]) if found else {}
    max_length = options.get("max_seq_length")
    return Modules(
        transformer,
        Pooling("mask" if masked else mode, layers, weights),
        heads,
        max_length=None if max_length is None else int(max_length),
        lowercase=bool(options.get("do_lower_case")),
        prompt=prompt,
        settings=settings,
    )


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
    _write_json(
        folder / "modules.json",
        [{"idx": i, "name": str(i), "path": place, "type": name} for i, (name, place) in enumerate(modules)],
    )
    config: dict[str, Any] = {"max_seq_length": parts.max_length, "do_lower_case": parts.lowercase}
    if getattr(model.base_model, "pooler", model) is None:
        config["model_args"] = {"add_pooling_layer": False}
    _write_json(folder / TRANSFORMER_CONFIGS[0], config)
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
    _write_json(folder / "config_sentence_transformers.json", settings)
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
        _write_module(add("isotune.encoder.st_modules.WKPooling"), config)
        return
    if pooling.needs_all_layers(blocks):
        weights = torch.tensor([shares.get(layer, 0.0) for layer in range(blocks + 1)])
        config = {"word_embedding_dimension": dimension, "layer_start": 0, "num_hidden_layers": blocks}
        _write_module(add("sentence_transformers.models.WeightedLayerPooling"), config, {"layer_weights": weights})
    if pooling.mode == "mask":
        # The mean over tokens of which all but the mask weigh nothing.
        vocabulary = tokenizer.convert_ids_to_tokens(list(range(model.config.vocab_size)))
        marks = {"vocab": vocabulary, "word_weights": {tokenizer.mask_token: 1.0}, "unknown_word_weight": 0.0}
        _write_module(add("sentence_transformers.models.WordWeights"), marks)
    modes = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens", "weightedmean": "weightedmean_tokens"}
    summary = "mean" if pooling.mode == "mask" else pooling.mode
    flags = {f"pooling_mode_{flag}": mode == summary for mode, flag in modes.items()}
    config = {"word_embedding_dimension": dimension, **flags, "include_prompt": True}
    _write_module(add("sentence_transformers.models.Pooling"), config)


def _pooling_mode(config: dict[str, Any], place: Path, prompt: str) -> Any:
    """The one pooling mode of a sentence-transformers Pooling, in its old or its new notation."""
    modes = config.get("pooling_mode") or [
        key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
        for key, on in config.items()
        if key.startswith("pooling_mode_") and on
    ]
    modes = [modes] if isinstance(modes, str) else list(modes)
    if len(modes) != 1 or modes[0] not in ("cls", "mean", "max", "weightedmean"):
        raise InputError(f"model {place}: pooling {' + '.join(modes)}; known is one of cls, mean, max, weightedmean")
    if prompt and not config.get("include_prompt", True):
        raise InputError(f"model {place}: it leaves its prompt out of the pooling, which is not known here")
    return modes[0]


def _only_mask(config: dict[str, Any], place: Path) -> bool:
    """True: the mask token is the only word with a weight, so that the mean is the vector at the mask."""
    words = list(config["word_weights"].items())
    if words not in ([("[MASK]", 1.0)], [("<mask>", 1.0)]) or config["unknown_word_weight"]:
        raise InputError(f"model {place}: weights of words are not known here, but for 1 for the mask token alone")
    return True


def read_head(cls: type[Head], place: Path) -> Head:
    """A head with its weights.

    Raises:
        InputError: its files are damaged, or describe a head that isn't known here.
    """
    config = _json(place / "config.json", missing_ok=True)
    try:
        head = cls.from_config(config)
    except InputError as error:
        raise InputError(f"model {place}: {error}") from error
    if head.state_dict():
        tensors = _weights(place)
        try:
            head.load_state_dict(tensors)
        except RuntimeError as error:
            raise InputError(f"model {place}: {' '.join(str(error).split())}") from error
    return head


def write_head(head: Head, place: Path) -> None:
    """Writes a head into an existing folder."""
    _write_module(place, head.config(), head.state_dict())


def _write_module(place: Path, config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor] | None = None) -> None:
    _write_json(place / "config.json", config)
    if tensors:
        save_file({key: value.contiguous() for key, value in tensors.items()}, place / "model.safetensors")


def _weights(place: Path) -> dict[str, torch.Tensor]:
    """The tensors of a module's folder."""
    try:
        return load_file(place / "model.safetensors")
    except FileNotFoundError as error:
        raise InputError(f"model {place}: there are no weights; model.safetensors is missing") from error
    except SafetensorError as error:
        raise InputError(f"model {place}: model.safetensors is damaged ({error})") from error


def _json(path: Path, missing_ok: bool = False) -> Any:
    """A JSON file's content; {} for a missing one that may be missing."""
    if missing_ok and not path.exists():
        return {}
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: it can't be read as JSON ({error})") from error


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")

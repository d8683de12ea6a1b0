"""Model folders: reading Hugging Face and sentence-transformers ones, writing the latter.

Nothing is trusted and nothing is made up: only safetensors are read, no code from the folder runs, and a weight that
is missing, or that nothing in the model answers to, is an error instead of a silent new initialisation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tokenizers import normalizers
from torch import nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from isotune.encoder.heads import Dense, Normalize
from isotune.encoder.pooling import Pooling
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
        "predictions",
        "qa_outputs",
        "seq_relationship",
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
    """The folder of a model: the path itself, or a snapshot of the hub's repository of that name.

    Raises:
        InputError: there is neither, or the hub can't be reached.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    path = Path(model).expanduser()
    if path.is_dir():
        return path
    if path.exists():
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
        config = AutoConfig.from_pretrained(folder)
        with _quiet():
            model, info = AutoModel.from_pretrained(
                folder,
                config=config,
                dtype=dtype or "auto",
                use_safetensors=True,
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
    model.config.output_hidden_states = False
    loaded: PreTrainedModel = model
    return loaded


def load_tokenizer(folder: Path, lowercase: bool) -> PreTrainedTokenizerBase:
    """The folder's tokenizer, with text lowercased before it if that is asked for.

    Raises:
        InputError: it has none that can be loaded.
    """
    if not any((folder / name).exists() for name in VOCABULARIES):
        # transformers would make an empty tokenizer, which knows no word.
        raise InputError(f"model {folder}: there is no tokenizer; one of {', '.join(VOCABULARIES)} has to be there")
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"model {folder}: its tokenizer can't be loaded: {reason}") from error
    if lowercase:
        own = tokenizer.backend_tokenizer.normalizer
        steps = [normalizers.Lowercase(), *([own] if own else [])]
        tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(steps)
    return tokenizer


@dataclass(frozen=True)
class Modules:
    """What makes a sentence encoder of a language model.

    Attributes:
        transformer: folder of the language model.
        pooling: from its hidden states to a vector.
        heads: what comes after the pooling.
        max_length: tokens a sentence is cut to; None where only the model's own limits count.
        lowercase: text is lowercased before the tokenizer.
        prompt: text put before every sentence.
    """

    transformer: Path
    pooling: Pooling = field(default_factory=Pooling)
    heads: Sequence[nn.Module] = ()
    max_length: int | None = None
    lowercase: bool = False
    prompt: str = ""


def read_modules(folder: Path) -> Modules:
    """What a sentence-transformers folder says; for a plain language model, the mean of its last layer.

    Raises:
        InputError: it has a module or an option that isn't known here; leaving it out would give other vectors.
    """
    if not (folder / "modules.json").exists():
        return Modules(folder)
    transformer, mode, layers, weights = folder, None, (-1,), None
    heads: list[nn.Module] = []
    prompt = ""
    settings = _json(folder / "config_sentence_transformers.json", missing_ok=True)
    if name := settings.get("default_prompt_name"):
        prompt = settings.get("prompts", {}).get(name, "")
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
        elif kind == "Dense":
            heads.append(_dense(place))
        elif kind == "Normalize":
            heads.append(Normalize())
        elif kind != "Dropout":  # which does nothing outside training
            raise InputError(
                f"model {folder}: it has a module {module['type']}; known are Transformer, WeightedLayerPooling, "
                "Pooling, Dense and Normalize"
            )
    if mode is None:
        raise InputError(f"model {folder}: modules.json names no Pooling, so it makes no sentence vectors")
    options = _json(transformer / "sentence_bert_config.json", missing_ok=True)
    return Modules(
        transformer,
        Pooling(mode, layers, weights),
        heads,
        max_length=options.get("max_seq_length"),
        lowercase=options.get("do_lower_case", False),
        prompt=prompt,
    )


def write(
    folder: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pooling: Pooling,
    heads: Sequence[nn.Module],
    max_length: int,
    prompt: str,
) -> None:
    """Writes a sentence-transformers folder into an empty folder."""
    blocks = model.config.num_hidden_layers
    dimension = model.config.hidden_size
    all_layers = pooling.needs_all_layers(blocks)
    model.config.output_hidden_states = all_layers
    with _quiet():
        model.save_pretrained(folder)
    model.config.output_hidden_states = False
    tokenizer.model_max_length = max_length
    tokenizer.save_pretrained(folder)
    modules: list[tuple[str, str]] = [("", "Transformer")]

    def add(kind: str, config: dict[str, Any], tensors: dict[str, torch.Tensor] | None = None) -> None:
        place = f"{len(modules)}_{kind}"
        modules.append((place, kind))
        (folder / place).mkdir()
        _write_json(folder / place / "config.json", config)
        if tensors:
            save_file({key: value.contiguous() for key, value in tensors.items()}, folder / place / "model.safetensors")

    if all_layers:
        shares = pooling.resolve(blocks)
        weights = torch.tensor([shares.get(layer, 0.0) for layer in range(blocks + 1)])
        config = {"word_embedding_dimension": dimension, "layer_start": 0, "num_hidden_layers": blocks}
        add("WeightedLayerPooling", config, {"layer_weights": weights})
    modes = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens", "weightedmean": "weightedmean_tokens"}
    flags = {f"pooling_mode_{flag}": mode == pooling.mode for mode, flag in modes.items()}
    add("Pooling", {"word_embedding_dimension": dimension, **flags, "include_prompt": True})
    for head in heads:
        if isinstance(head, Dense):
            activation = type(head.activation)
            config = {
                "in_features": head.linear.in_features,
                "out_features": head.linear.out_features,
                "bias": head.linear.bias is not None,
                "activation_function": f"{activation.__module__}.{activation.__name__}",
            }
            tensors = {f"linear.{key}": value for key, value in head.linear.state_dict().items()}
            add("Dense", config, tensors)
        else:
            add("Normalize", {})

    _write_json(
        folder / "modules.json",
        [
            # The names that every release of sentence-transformers understands.
            {"idx": i, "name": str(i), "path": place, "type": f"sentence_transformers.models.{kind}"}
            for i, (place, kind) in enumerate(modules)
        ],
    )
    config = {"max_seq_length": max_length, "do_lower_case": False}
    if getattr(model, "pooler", model) is None:
        config["model_args"] = {"add_pooling_layer": False}
    _write_json(folder / "sentence_bert_config.json", config)
    _write_json(
        folder / "config_sentence_transformers.json",
        {
            "__version__": {"transformers": transformers.__version__, "pytorch": torch.__version__},
            "prompts": {"default": prompt} if prompt else {},
            "default_prompt_name": "default" if prompt else None,
            "similarity_fn_name": "cosine",
        },
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Within it, transformers reports neither progress nor what it initialised: that is checked here instead."""
    verbosity, bar = transformers.logging.get_verbosity(), transformers.logging.is_progress_bar_enabled()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(verbosity)
        if bar:
            transformers.logging.enable_progress_bar()


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


def _dense(place: Path) -> Dense:
    """A Dense head with its weights."""
    config = _json(place / "config.json")
    if config.get("use_residual") or config.get("module_input_name", "sentence_embedding") != "sentence_embedding":
        raise InputError(f"model {place}: a Dense head with a residual or on tokens is not known here")
    activation = config["activation_function"].rpartition(".")[2]
    dense = Dense(config["in_features"], config["out_features"], config.get("bias", True), activation)
    try:
        dense.load_state_dict(_weights(place))
    except RuntimeError as error:
        raise InputError(f"model {place}: {' '.join(str(error).split())}") from error
    return dense


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

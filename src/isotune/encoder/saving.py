"""Writes an encoder's folder in sentence-transformers' format.

Every release of sentence-transformers reads the folder. `format/modules.py` reads it here.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from isotune.encoder.finished import MODULES
from isotune.encoder.format.modules import (
    FLAGS,
    PLUGINS,
    TRANSFORMER_CONFIG,
    write_json,
    write_module,
)
from isotune.encoder.format.pretrained import quiet
from isotune.encoder.format.prompt import fill_mask, save_tokenizer, split_prompt, with_suffix
from isotune.encoder.heads import TRUNCATE_DIM, Cut, is_cut
from isotune.encoder.model import SentenceModel
from isotune.encoder.options import POOLINGS
from isotune.files import rust_writes
from isotune.plugins import plugins_of

# The poolings that old releases of sentence-transformers don't have: these refuse even a flag that
# is off.
NEWER_POOLINGS = ("lasttoken",)


class WrittenModule(NamedTuple):
    """A module as it is written."""

    type_name: str
    """The class that modules.json names. Every release of sentence-transformers understands it."""
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


def write_modules(encoder: SentenceModel, folder: Path) -> None:
    """Writes a sentence-transformers folder into an empty folder."""
    _write_language_model(encoder, folder)
    table = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
    ]
    for number, module in enumerate(_modules_after_model(encoder), 1):
        name = f"{number}_{module.type_name.rpartition('.')[2]}"
        (folder / name).mkdir()
        write_module(folder / name, module.config, module.tensors)
        table.append({"idx": number, "name": str(number), "path": name, "type": module.type_name})
    write_json(folder / MODULES, table)
    plugins = plugins_of([POOLINGS[encoder.pooling.mode], *map(type, encoder.heads)])
    if plugins:
        write_json(folder / PLUGINS, plugins)
    write_json(folder / "config_sentence_transformers.json", _settings(encoder))


def let_others_read(folder: Path) -> None:
    """Gives the weights the mode of other files, because another user may serve the encoder.

    safetensors lets only the owner read its files.
    """
    mode = (folder / MODULES).stat().st_mode
    for weights_file in folder.rglob("*.safetensors"):
        weights_file.chmod(mode)


def _modules_after_model(encoder: SentenceModel) -> Iterator[WrittenModule]:
    yield from _pooling_modules(encoder)
    for head in encoder.heads:
        if isinstance(head, Cut):
            # The settings have it.
            continue
        yield WrittenModule(head.type_name, head.config(), head.state_dict())


def _write_language_model(encoder: SentenceModel, folder: Path) -> None:
    model = encoder.language_model
    blocks = encoder.backbone.layers
    pools_last_layer = encoder.pooling.numbered(blocks).layers == (blocks,)
    model.config.output_hidden_states = not pools_last_layer or encoder.pooling.mode not in FLAGS
    with quiet(), rust_writes():
        model.save_pretrained(folder)
    model.config.output_hidden_states = False
    _write_tokenizer(encoder, folder)
    config: dict[str, Any] = {
        "max_seq_length": encoder.max_length,
        "do_lower_case": encoder.lowercase,
    }
    if getattr(model.base_model, "pooler", model) is None:
        config["model_args"] = {"add_pooling_layer": False}
    write_json(folder / TRANSFORMER_CONFIG, config)


def _write_tokenizer(encoder: SentenceModel, folder: Path) -> None:
    """Writes the tokenizer, with the text after the sentence as a part of it."""
    tokenizer: PreTrainedTokenizerBase = encoder.tokenizer
    tokenizer.model_max_length = encoder.max_length
    if tokenizer.is_fast:
        # Else tokenizer.json would keep the truncation of the last call.
        tokenizer.backend_tokenizer.no_truncation()
    _, after = split_prompt(encoder.prompt, encoder.lowercase)
    if after:
        save_tokenizer(with_suffix(tokenizer, after), folder)
    else:
        with rust_writes():
            tokenizer.save_pretrained(folder)


def _pooling_modules(encoder: SentenceModel) -> Iterator[WrittenModule]:
    """The modules that make a sentence vector of the hidden states of tokens."""
    pooling = encoder.pooling
    blocks = encoder.backbone.layers
    dimension = {"word_embedding_dimension": encoder.backbone.dimension}
    shares = pooling.resolve(blocks)
    if pooling.mode not in FLAGS:
        config = {
            **dimension,
            "mode": pooling.mode,
            "layers": list(shares),
            "weights": pooling.weights,
        }
        yield WrittenModule("isotune.encoder.st_modules.RegisteredPooling", config, {})
        return
    if set(shares) != {blocks}:
        weights = torch.tensor([shares.get(layer, 0.0) for layer in range(blocks + 1)])
        config = {**dimension, "layer_start": 0, "num_hidden_layers": blocks}
        yield WrittenModule(
            "sentence_transformers.models.WeightedLayerPooling",
            config,
            {"layer_weights": weights},
        )
    if pooling.mode == "mask" or (pooling.mode == "mean" and encoder.token_weights is not None):
        yield WrittenModule("sentence_transformers.models.WordWeights", _word_weights(encoder), {})
    config = dict(dimension)
    for mode, flag in FLAGS.items():
        if mode in NEWER_POOLINGS and mode != pooling.mode:
            continue
        config[f"pooling_mode_{flag}"] = flag == FLAGS[pooling.mode]
    config["include_prompt"] = True
    yield WrittenModule("sentence_transformers.models.Pooling", config, {})


def _word_weights(encoder: SentenceModel) -> dict[str, Any]:
    """The settings of WordWeights: the weight of each token, or of the mask token alone."""
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
    word_weights = dict(zip(vocabulary, encoder.token_weights.tolist(), strict=True))
    return {"vocab": vocabulary, "word_weights": word_weights, "unknown_word_weight": 1.0}


def _settings(encoder: SentenceModel) -> dict[str, Any]:
    """The content of config_sentence_transformers.json."""
    before, _ = split_prompt(encoder.prompt, encoder.lowercase)
    settings = {
        "prompts": {},
        "default_prompt_name": None,
        "similarity_fn_name": "cosine",
        **encoder.settings,
    }
    settings.pop(TRUNCATE_DIM, None)
    if is_cut(encoder.heads):
        settings[TRUNCATE_DIM] = encoder.dimension
    settings["__version__"] = {
        "transformers": transformers.__version__,
        "pytorch": torch.__version__,
    }
    name = None
    if before:
        name = settings["default_prompt_name"] or "default"
        settings["prompts"] = {**settings["prompts"], name: fill_mask(before, encoder.tokenizer)}
    settings["default_prompt_name"] = name
    return settings

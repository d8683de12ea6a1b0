"""The folder of one module of an encoder: config.json, and model.safetensors where the module has weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from isotune.encoder.format.pretrained import load_errors, note_pickle
from isotune.encoder.heads import Head
from isotune.errors import InputError
from isotune.files import read_json


def read_head(head_class: type[Head], place: Path) -> Head:
    """Reads a head and its weights.

    Raises:
        InputError: the files are damaged, or describe a head that `head_class` doesn't support.
    """
    config = read_json(place / "config.json", missing_ok=True)
    try:
        head = head_class.from_config(config)
    except InputError as error:
        raise InputError(f"model {place}: {error}") from error
    if head.state_dict():
        tensors = read_tensors(place)
        try:
            head.load_state_dict(tensors)
        except RuntimeError as error:
            raise InputError(f"model {place}: {error}") from error
    return head


def write_module(place: Path, config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> None:
    """Writes the settings of a module, and its tensors if it has any, into an existing folder."""
    write_json(place / "config.json", config)
    if tensors:
        save_file({key: value.contiguous() for key, value in tensors.items()}, place / "model.safetensors")


def read_tensors(place: Path) -> dict[str, torch.Tensor]:
    """Reads the tensors of a module's folder, which may be in pytorch_model.bin if it has no model.safetensors.

    Raises:
        InputError: the file is missing or damaged.
    """
    pickled = place / "pytorch_model.bin"
    if pickled.exists() and not (place / "model.safetensors").exists():
        note_pickle(place)
        with load_errors(place):
            return dict(torch.load(pickled, map_location="cpu", weights_only=True))
    try:
        return load_file(place / "model.safetensors")
    except FileNotFoundError as error:
        raise InputError(f"model {place}: there are no weights; model.safetensors is missing") from error
    except SafetensorError as error:
        raise InputError(f"model {place}: model.safetensors is damaged ({error})") from error


def write_json(path: Path, content: Any) -> None:
    """Writes a JSON file that a person can read."""
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")

"""The folder of one module of an encoder: config.json, and model.safetensors where the module has weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from isotune.encoder.format.pretrained import load_errors, note_pickle
from isotune.encoder.heads import Head
from isotune.files import read_json


def read_head(head_class: type[Head], place: Path) -> Head:
    """Reads a head and its weights.

    Raises:
        InputError: the files are damaged, or describe a head that `head_class` doesn't support.
    """
    config = read_json(place / "config.json", missing_ok=True)
    with load_errors(place):
        head = head_class.from_config(config)
        if head.state_dict():
            head.load_state_dict(read_tensors(place))
    return head


def write_module(place: Path, config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> None:
    """Writes the settings of a module, and its tensors if it has any, into an existing folder."""
    write_json(place / "config.json", config)
    if tensors:
        save_file({key: value.contiguous() for key, value in tensors.items()}, place / "model.safetensors")


def read_tensors(place: Path) -> dict[str, torch.Tensor]:
    """Reads the tensors of a module's folder, within `load_errors`; from pytorch_model.bin if that is all there is."""
    pickled, safe = place / "pytorch_model.bin", place / "model.safetensors"
    if safe.exists() or not pickled.exists():
        return load_file(safe)
    note_pickle(place)
    return dict(torch.load(pickled, map_location="cpu", weights_only=True))


def write_json(path: Path, content: Any) -> None:
    """Writes a JSON file that a person can read."""
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")

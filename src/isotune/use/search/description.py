"""index.json: which encoder made the vectors of an index, and what its approximate search was measured to find."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isotune.errors import InputError
from isotune.files import read_json, write_text

DESCRIPTION = "index.json"
KEYS = {"encoder", "precision", "fingerprint", "dimension"}


def read_description(folder: Path) -> dict[str, Any]:
    """The description of the index in a folder.

    Raises:
        InputError: the folder is no index, or its description is damaged.
    """
    path = folder / DESCRIPTION
    if not path.exists():
        raise InputError(f"{folder}: no index; make one with isotune index ENCODER FILE --out {folder}")
    description = read_json(path)
    if not isinstance(description, dict) or not description.keys() >= KEYS:
        raise InputError(f"{path}: it does not describe an index; make a new index")
    return description


def write_description(folder: Path, description: Mapping[str, Any]) -> None:
    """Writes the description of the index in a folder."""
    write_text(folder / DESCRIPTION, json.dumps(description, indent=2) + "\n")

"""The small model and the sentence pairs that come with the package, so that it works without a network.

The README.md of each folder names the source and the licence of its content.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

BUNDLED_MODEL = "mini"  # the name of the bundled model, wherever a model is named


def bundled_data() -> Path:
    """The folder of the bundled datasets, with the layout of `$ISOTUNE_DATA`."""
    return Path(str(files(__name__)))


def bundled_model() -> Path:
    """The folder of "mini", a masked language model of 7.5 M parameters that is not tuned yet."""
    return bundled_data() / "mini"

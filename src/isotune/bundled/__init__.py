"""What comes with the package, so that it works with no network: a small model and a sample of STS-B.

Each folder has a README.md that says where its content is from and under which licence.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

BUNDLED_MODEL = "mini"  # its name wherever a model is named


def bundled_data() -> Path:
    """The folder of the bundled datasets, laid out as `$ISOTUNE_DATA` is."""
    return Path(str(files(__name__)))


def bundled_model() -> Path:
    """The folder of "mini", a masked language model of 7.5 M parameters that is yet to be tuned."""
    return bundled_data() / "mini"

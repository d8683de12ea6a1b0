"""Tells a finished sentence encoder from a plain language model, before either is loaded. Loads no torch."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from isotune.bundled import local_model

MODULES = "modules.json"


def is_finished_encoder(model: str | Path) -> bool:
    """Whether the model is a folder in sentence-transformers' form, here or on the Hugging Face hub.

    Such a folder has modules.json: somebody has decided how its sentence vectors are made. A name that the hub doesn't
    know is no finished encoder; loading it says what is wrong.
    """
    folder = local_model(model)
    return (folder / MODULES).exists() if folder else _on_hub(str(model))


@cache
def _on_hub(model: str) -> bool:
    """Whether a repository on the hub, or its fetched copy, has modules.json."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        hf_hub_download(model, MODULES)
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError):
        return False
    return True

"""Tells a finished sentence encoder from a plain language model, before either is loaded. Loads no torch."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from isotune.bundled import local_model
from isotune.data.hub import WAIT
from isotune.errors import InputError

MODULES = "modules.json"


def is_finished_encoder(model: str | Path, *, ask_hub: bool = True) -> bool:
    """Whether the model is a folder in sentence-transformers' form, here or on the Hugging Face hub.

    Such a folder has modules.json: somebody has decided how its sentence vectors are made. A name that the hub doesn't
    know is no finished encoder; loading it says what is wrong. Without `ask_hub`, only what was fetched is looked at.

    Raises:
        InputError: the model is not on this machine, and the hub can't be asked.
    """
    folder = local_model(model)
    return (folder / MODULES).exists() if folder else _on_hub(str(model), ask_hub)


def fetched_model(model: str) -> Path | None:
    """The folder of a model of the hub that was fetched before; the hub is not asked."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(model, allow_patterns=[MODULES, "config.json"], local_files_only=True))
    except (HFValidationError, LocalEntryNotFoundError):
        return None
    return folder if (folder / MODULES).exists() or (folder / "config.json").exists() else None


@cache
def _on_hub(model: str, ask_hub: bool) -> bool:
    """Whether a repository on the hub has modules.json; or its fetched copy, if the hub is not asked or not reached."""
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    reason = "it isn't asked"
    if ask_hub:
        try:
            files = huggingface_hub.model_info(model, timeout=WAIT).siblings or ()
            return any(file.rfilename == MODULES for file in files)
        except (HFValidationError, RepositoryNotFoundError):
            return False
        except Exception as error:  # libraries below raise errors of many classes
            reason = next(iter(str(error).splitlines()), type(error).__name__)
    if folder := fetched_model(model):
        return (folder / MODULES).exists()
    raise InputError(
        f"model {model}: there is no such folder, and the Hugging Face hub can't say whether it is a finished encoder "
        f"({reason}); give a local folder, or name the recipe: adapt for a finished encoder, default for any other"
    )

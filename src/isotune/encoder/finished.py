"""Finds a model by its folder or its hub name, and tells a finished sentence encoder from a plain language model.

All this happens before the model is loaded. Loads no torch.
"""

from contextlib import AbstractContextManager, suppress
from functools import cache
from pathlib import Path

from isotune.bundled import MODEL_FILES, local_model
from isotune.errors import InputError

MODULES = "modules.json"
ADAPTER = "it holds an adapter (LoRA or similar) of another model; merge it into that model, and save the result"


def is_finished_encoder(model: str | Path) -> bool:
    """Whether the model, here or on the hub, has modules.json, which says how its sentence vectors are made."""
    folder = model_folder(model)
    return (folder / MODULES).exists() if folder else _on_hub(str(model))


def model_folder(model: str | Path) -> Path | None:
    """The folder of a model on this machine; None if only the hub can know the name."""
    path = local_model(model)
    if path and not path.is_dir():
        raise InputError(
            f"model {model}: this is a file; give the folder that holds config.json and the weights"
        )
    if path and not any((path / file).exists() for file in MODEL_FILES):
        if (path / "adapter_config.json").exists():
            raise InputError(f"model {model}: {ADAPTER}")
        encoder = path / "encoder"
        instead = (
            f"{encoder}, the encoder of this run"
            if (encoder / MODULES).exists()
            else "the folder of a model"
        )
        raise InputError(f"model {model}: there is no config.json in this folder; give {instead}")
    return path


def model_errors(model: str) -> AbstractContextManager[None]:
    """Turns the hub's errors about a model into an InputError of one line."""
    from isotune.data.hub import (
        hub_errors,  # here, because the help of isotune train asks about models here only
    )

    hint = (
        "" if "/" in model else f"; write its owner too: sentence-transformers/{model} or another"
    )
    return hub_errors(f"model {model}: there is no such folder", model, "model", hint)


def hub_files(model: str) -> list[str] | Path:
    """The names of a repository's files; the folder of what was fetched before, if the hub gives no answer."""
    import huggingface_hub
    from huggingface_hub.errors import (
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    from isotune.data.hub import WAIT  # here, as in `model_errors`

    try:
        return [
            file.rfilename
            for file in huggingface_hub.model_info(model, timeout=WAIT).siblings or ()
        ]
    except (HFValidationError, RepositoryNotFoundError):
        raise
    except Exception as error:  # libraries below raise errors of many classes
        with suppress(LocalEntryNotFoundError):
            names = [MODULES, "config.json"]
            folder = Path(
                huggingface_hub.snapshot_download(
                    model, allow_patterns=names, local_files_only=True
                )
            )
            if any((folder / name).exists() for name in names):
                return folder
        raise OSError(str(error)) from error


@cache
def _on_hub(model: str) -> bool:
    with model_errors(model):
        files = hub_files(model)
    return (files / MODULES).exists() if isinstance(files, Path) else MODULES in files

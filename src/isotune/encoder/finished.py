"""Finds a model by its folder or its hub name, and tells what the folder holds.

A finished sentence encoder is told from a plain language model, and a folder that isotune can't
load is refused by a line that says what the folder is. All this happens before the model is loaded.
Loads no torch.
"""

import json
import re
from contextlib import AbstractContextManager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from isotune.bundled import has_model, local_model
from isotune.errors import InputError, as_input_error

MODULES = "modules.json"
ADAPTER_CONFIG = "adapter_config.json"
ADAPTER = (
    "it holds an adapter (LoRA or similar) of another model; merge it into that model, and save "
    "the result"
)
# The most bytes of a file of settings. The largest published settings (the weights of words) have
# 16 MB.
LARGEST_SETTINGS = 24_000_000

# What a name on the hub looks like: "owner/name", or "name" without its owner.
HUB_NAME = re.compile(r"([\w.-]{1,96}/)?[\w.-]{1,96}")
HUB_ADDRESS = re.compile(r"(hub:|hf://|https?://huggingface\.co/)(?P<name>.+)")

ROUTER = (
    "it holds two encoders (Router), one for queries and one for documents; give one of its folders"
)
STATIC = (
    "it is a table of static vectors, one for each token (model2vec or similar), and no language "
    "model; give a language model, such as the one that the table was made from"
)
SPARSE = (
    "it is a sparse encoder (SPLADE or similar), whose vectors have a number for each word; give "
    "an encoder with dense vectors, or a language model"
)
# What a folder is, by the last part of the type of one of its modules.
UNSUPPORTED_MODULES = {
    "Asym": ROUTER,
    "Router": ROUTER,
    "StaticEmbedding": STATIC,
    "WordEmbeddings": STATIC,
    "SparseStaticEmbedding": SPARSE,
    "SpladePooling": SPARSE,
}
OWN_CODE = (
    "it is made for code of its own (GTE's model type new), which never runs here; give a version "
    "for transformers (model type gte), such as alibaba-nlp-community/gte-multilingual-base"
)
MULTIMODAL = (
    "it is a model of texts, images and sound (EmbeddingGemma 2); give the model of texts in it: "
    "AutoModel.from_pretrained(MODEL).language_model.save_pretrained(FOLDER), by transformers"
)
# What a folder is, by the model type in its config.json.
UNSUPPORTED_TYPES = {"model2vec": STATIC, "new": OWN_CODE, "embedding_gemma2": MULTIMODAL}


def is_finished_encoder(model: str | Path) -> bool:
    """Whether the model has modules.json, which says how its sentence vectors are made.

    The model may be here or on the hub.
    """
    folder = model_folder(model)
    if folder:
        return (folder / MODULES).exists()
    return _is_finished_on_hub(str(model))


def model_folder(model: str | Path) -> Path | None:
    """The folder of a model on this machine; None if only the hub can know the name.

    Raises:
        InputError: there is a file or another folder of this name; or there is none, and the name
            can't be one on the hub.
    """
    name = _shown(model)
    if not str(model).strip():
        raise InputError(f"model {name}: give a folder or a name on the Hugging Face hub")
    folder = local_model(model)
    if folder is None:
        _check_hub_name(str(model), name)
        return None
    with as_input_error(OSError, f"model {name}: it can't be read"):
        if not folder.is_dir():
            raise InputError(
                f"model {name}: this is a file; give the folder that holds config.json and the "
                "weights"
            )
        refuse_unsupported(folder, name)
        if not has_model(folder):
            raise InputError(
                f"model {name}: there is no config.json in this folder; give "
                f"{_better_folder(folder)}"
            )
    return folder


def refuse_unsupported(folder: Path, name: object) -> None:
    """Raises InputError if a folder holds something else than a language model or an encoder.

    A file that is no JSON, or is no file at all, is not judged here.
    """
    problem = _problem_of_modules(folder) or _problem_of_config(folder)
    if problem:
        raise InputError(f"model {name}: {problem}")


def _problem_of_modules(folder: Path) -> str:
    """What a folder is, by modules.json; "" for what can be loaded, or fails where it is read."""
    modules = _read_settings(folder / MODULES)
    if not isinstance(modules, list):
        return ""
    for module in modules:
        if not isinstance(module, dict):
            continue
        kind = str(module.get("type")).rpartition(".")[2]
        problem = UNSUPPORTED_MODULES.get(kind, "")
        if problem == ROUTER:
            return problem + _encoders_inside(folder)
        if problem:
            return problem
    return ""


def _problem_of_config(folder: Path) -> str:
    """What a folder is, by its other files of settings; "" as `_problem_of_modules`."""
    if (folder / ADAPTER_CONFIG).exists():
        return ADAPTER
    config = _read_settings(folder / "config.json")
    if not isinstance(config, dict):
        return ""
    return UNSUPPORTED_TYPES.get(str(config.get("model_type")), "")


def model_errors(model: str) -> AbstractContextManager[None]:
    """Turns the hub's errors about a model into an InputError of one line."""
    # Here, because the help of isotune train imports this module, and asks the hub nothing.
    from isotune.data.hub import hub_errors

    hint = ""
    if "/" not in model:
        hint = f"; write its owner too: sentence-transformers/{model} or another"
    return hub_errors(f"model {model}: there is no such folder", model, "model", hint)


def hub_files(model: str) -> list[str] | Path:
    """The names of a repository's files.

    If the hub gives no answer, it is the folder of what was fetched before.
    """
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    # Here, as in `model_errors`.
    from isotune.data.hub import WAIT, say_if_waiting

    try:
        with say_if_waiting(huggingface_hub.constants.ENDPOINT):
            info = huggingface_hub.model_info(model, timeout=WAIT)
    except (HFValidationError, RepositoryNotFoundError):
        raise
    except Exception:
        # Libraries below raise errors of many classes.
        folder = _fetched_before(model)
        if folder is None:
            raise
        return folder
    return [file.rfilename for file in info.siblings or ()]


def _fetched_before(model: str) -> Path | None:
    """The folder of a repository that was fetched before; None if there is none with a model."""
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    names = [MODULES, "config.json"]
    with suppress(LocalEntryNotFoundError):
        snapshot = huggingface_hub.snapshot_download(
            model, allow_patterns=names, local_files_only=True
        )
        folder = Path(snapshot)
        if has_model(folder):
            return folder
    return None


@cache
def _is_finished_on_hub(model: str) -> bool:
    with model_errors(model):
        files = hub_files(model)
    if isinstance(files, Path):
        refuse_unsupported(files, model)
        return (files / MODULES).exists()
    return MODULES in files


def _shown(model: str | Path) -> str:
    """The name as a message shows it: in quotes if it is empty, or has signs that can't be seen."""
    name = str(model)
    if not name.isprintable() or name != name.strip() or not name:
        return repr(name)
    return name


def _check_hub_name(model: str, name: str) -> None:
    """Refuses the name of a missing folder if it can't be a name on the hub."""
    if HUB_NAME.fullmatch(model):
        return
    problem = (
        f"model {name}: there is no such folder: this can't be a name on the Hugging Face hub, "
        "such as google-bert/bert-base-uncased"
    )
    address = HUB_ADDRESS.fullmatch(model)
    if address:
        problem += f"; write {address['name']}"
    raise InputError(problem)


def _better_folder(folder: Path) -> str:
    """The folder to give instead of one without a model."""
    encoder = folder / "encoder"
    if (encoder / MODULES).exists():
        return f"{encoder}, the encoder of this run"
    return "the folder of a model"


def _encoders_inside(folder: Path) -> str:
    """The folders of a Router's encoders, as the end of a message; "" if there are none."""
    names = sorted(str(path) for path in folder.glob("*Transformer") if has_model(path))
    if not names:
        return ""
    return f": {' or '.join(names)}"


def _read_settings(path: Path) -> Any:
    """What a JSON file of settings says; None if there is none that can be read."""
    if not path.is_file() or path.stat().st_size > LARGEST_SETTINGS:
        return None
    try:
        return json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError):
        return None

"""Uploads an encoder, or its ONNX folder, to a repository on the Hugging Face hub."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.report.card import CARD, write_card

MARKS = ("modules.json", "model.onnx")  # a folder with an encoder has one of these


@dataclass(frozen=True)
class Upload:
    """What is going to be uploaded, and where to."""

    folder: Path
    repository: str  # "owner/name"
    visibility: str  # "public" or "private"
    exists: bool  # whether the repository is there already
    files: tuple[Path, ...]  # the files of the folder but hidden ones, relative to it

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum((self.folder / file).stat().st_size for file in self.files)


def prepare(folder: str | Path, repository: str, private: bool = False) -> Upload:
    """Looks what an upload would do, and writes a model card if the folder has none; uploads nothing.

    Raises:
        InputError: the folder holds no encoder, the name is not allowed, there is no token, or the hub refuses it; or
            the repository is public already, although a private one is asked for.
    """
    from huggingface_hub import HfApi, constants, get_token
    from huggingface_hub.errors import RepositoryNotFoundError

    folder = Path(folder)
    if not any((folder / mark).exists() for mark in MARKS):
        hint = f"; its encoder is {folder / 'encoder'}" if (folder / "encoder").is_dir() else ""
        raise InputError(f"{folder}: there is no encoder here (none of {' and '.join(MARKS)}){hint}")
    if repository.count("/") != 1:
        raise InputError(f"repository {repository!r}: write OWNER/NAME")
    if get_token() is None:
        raise InputError(
            f"there is no token for the hub: make one that may write at {constants.ENDPOINT}/settings/tokens, then "
            "run `hf auth login`, or set HF_TOKEN"
        )
    with _one_line(repository):
        try:
            private_there, exists = bool(HfApi().repo_info(repository).private), True
        except RepositoryNotFoundError:
            private_there, exists = private, False
    if private and not private_there:
        raise InputError(
            f"repository {repository}: it is public already; make it private on the hub first, or leave --private out"
        )
    if not (folder / CARD).exists():
        write_card(Encoder.load(folder), folder)
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    files = [file for file in files if not any(part.startswith(".") for part in file.parts)]
    return Upload(folder, repository, "private" if private_there else "public", exists, tuple(files))


def push(upload: Upload) -> str:
    """Uploads in one commit, and returns the address of the repository. Files that only the hub has stay there.

    Raises:
        InputError: the hub refuses the upload, or can't be reached.
    """
    from huggingface_hub import HfApi

    api = HfApi()
    with _one_line(upload.repository):
        if not upload.exists:
            api.create_repo(upload.repository, private=upload.visibility == "private")
        api.upload_folder(
            repo_id=upload.repository,
            folder_path=upload.folder,
            allow_patterns=[glob.escape(file.as_posix()) for file in upload.files],
            commit_message="Upload an encoder made by isotune",
        )
    return f"{api.endpoint}/{upload.repository}"


@contextmanager
def _one_line(repository: str) -> Iterator[None]:
    """Turns whatever the hub says into an InputError of one line."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        yield
    except HFValidationError as error:
        raise InputError(f"repository {repository}: {error}") from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        refused = "the token may not do this; make one that may write. " if status in (401, 403) else ""
        reason = error.server_message or str(error).strip().partition("\n")[0]
        raise InputError(f"repository {repository}: {refused}The hub says: {reason} ({status})") from error
    except Exception as error:  # of any of the libraries that the hub's client uses
        reason = " ".join(f"{error} {error.__cause__ or ''}".split())[:300]
        raise InputError(f"repository {repository}: the hub can't be used ({reason})") from error

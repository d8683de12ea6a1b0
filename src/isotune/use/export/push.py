"""Uploads an encoder, or its ONNX folder, to a repository on the Hugging Face hub."""

from pathlib import Path

from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.report.card import CARD, write_card

MARKS = ("modules.json", "model.onnx")  # a folder with an encoder has one of these
HIDDEN = [".*", "*/.*"]


def push(folder: str | Path, repository: str, private: bool = False) -> str:
    """Uploads all files of a folder but hidden ones in one commit; returns the address of the repository "owner/name".

    The repository is made if it is not there. Files that only the hub has stay there. A folder without a model card
    gets one.

    Raises:
        InputError: the folder holds no encoder, there is no token, or the hub refuses the upload or can't be reached;
            or the repository is public already, although a private one is asked for.
    """
    from huggingface_hub import HfApi, constants, get_token
    from huggingface_hub.errors import HfHubHTTPError

    folder, api = Path(folder), HfApi()
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
    if not (folder / CARD).exists():
        write_card(Encoder.load(folder), folder)
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        if private and not api.repo_info(repository).private:
            raise InputError(
                f"repository {repository}: it is public already; make it private on the hub first, or leave --private "
                "out"
            )
        message = "Upload an encoder made by isotune"
        api.upload_folder(repo_id=repository, folder_path=folder, ignore_patterns=HIDDEN, commit_message=message)
    except InputError:
        raise
    except HfHubHTTPError as error:
        status = error.response.status_code
        refused = "the token may not do this; make one that may write. " if status in (401, 403) else ""
        reason = error.server_message or str(error).strip().partition("\n")[0]
        raise InputError(f"repository {repository}: {refused}The hub says: {reason} ({status})") from error
    except Exception as error:  # of any of the libraries that the hub's client uses
        reason = " ".join(f"{error} {error.__cause__ or ''}".split())[:300]
        raise InputError(f"repository {repository}: the upload failed ({reason})") from error
    return f"{api.endpoint}/{repository}"

"""Single files of the web that have no place on the Hugging Face hub, fetched into the user's cache folder."""

from __future__ import annotations

import shutil
import urllib.request
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from filelock import FileLock

from isotune.data.cache import cache_folder
from isotune.errors import InputError
from isotune.files import make_folder, replacing

WAIT = 10  # seconds for an answer


def web_folder() -> Path:
    """The folder of all files of the web."""
    return cache_folder("") / "web"


def web_file(address: str) -> Path:
    """Where the file of an address is kept; it may not be there yet."""
    parts = urlsplit(address)
    return web_folder() / f"{parts.netloc.replace(':', '-')}{parts.path}"


def fetch_web(address: str) -> Path:
    """The file of an address, fetched unless it is there. Of several processes, one fetches it and the others wait.

    Raises:
        InputError: the file is not there, and it can't be fetched, or HF_HUB_OFFLINE is set.
    """
    from huggingface_hub import constants

    path = web_file(address)
    if path.exists():
        return path
    if constants.HF_HUB_OFFLINE:
        raise InputError(f"{address}: not fetched yet, and HF_HUB_OFFLINE is set")
    try:
        make_folder(path.parent)
        with FileLock(path.with_name(f"{path.name}.lock")):
            if not path.exists():  # else another process has fetched it meanwhile
                _fetch(address, path)
    except (HTTPException, OSError) as error:  # URLError is an OSError
        raise InputError(f"{address}: it can't be fetched ({getattr(error, 'reason', error)})") from error
    return path


def _fetch(address: str, path: Path) -> None:
    with urllib.request.urlopen(address, timeout=WAIT) as answer, replacing(path) as part, part.open("wb") as file:
        shutil.copyfileobj(answer, file)
        if (size := answer.headers.get("Content-Length")) and file.tell() != int(size):
            raise OSError(f"the connection ended after {file.tell():,} of {int(size):,} bytes")


def web_size(address: str) -> int:
    """The bytes of the file of an address, or 0 if the server doesn't tell; raises errors as `fetch_web`."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=WAIT) as answer:
            return int(answer.headers.get("Content-Length") or 0)
    except (HTTPException, OSError) as error:
        raise InputError(f"{address}: it can't be fetched ({getattr(error, 'reason', error)})") from error

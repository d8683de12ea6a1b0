"""Files that are written completely or not at all, JSON files, and TOML files that are read by path or by name.

The text files may be written by several processes at once, on several machines too: each process writes under a name of
its own, and moves that file into place. A large file has one such name, so that killed processes leave at most one.
What is moved into place is on the disk before, and its name is on the disk afterwards, so it outlives a power cut.
"""

import hashlib
import json
import os
import shutil
import tomllib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from isotune.errors import InputError, unknown

CHECKSUMS = "SHA256SUMS"  # in a folder: the file that `sha256sum -c` reads
TOML = ".toml"
WINDOWS = os.name == "nt"  # Windows syncs a file only if it is open for writing, and no folder
LARGEST_TOML = 100_000  # bytes; a key with n dots takes tomllib n² steps


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives a path beside `path` to write to; it replaces `path` when the block succeeds, and is removed otherwise."""
    part = path.with_name(f"{path.name}.part")
    try:
        yield part
        put_into_place(part, path)
    finally:
        part.unlink(missing_ok=True)


def put_into_place(part: Path, path: Path) -> None:
    """Gives a file or folder that is complete its final name, in a way that a power cut can't spoil."""
    for written in (*part.rglob("*"), part):
        sync(written)
    part.replace(path)
    sync(path.parent)


def make_folder(path: Path) -> None:
    """Makes a folder, and the folders above it, unless it is there; a power cut can't undo that."""
    if not path.is_dir():
        if not path.parent.exists():
            make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def sync(path: Path) -> None:
    """Waits until a file's content, or the names in a folder, are on the disk."""
    if WINDOWS and path.is_dir():
        return
    number = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError:
        if not path.is_dir():  # some file servers can't do this for folders
            raise
    finally:
        os.close(number)


@contextmanager
def new_path(path: Path) -> Iterator[Path]:
    """Gives a path beside `path` to make a new file or folder at; it becomes `path` when the block succeeds.

    Raises:
        InputError: `path` exists already, or can't be written; this is known before the block starts, if it can be.
    """
    if path.exists():
        raise InputError(f"{path}: it exists already; give another name")
    part = path.with_name(f"{path.name}.part")
    try:
        make_folder(path.parent)
        remove(part)  # what a killed process has left
        part.touch()  # fails here, not after the block
        part.unlink()
        yield part
        put_into_place(part, path)
    except ConnectionError:
        raise  # of a pipe or the network, and not of this file
    except Exception as error:
        if not isinstance(error, OSError) and "(os error " not in str(error):  # as libraries in Rust say it
            raise
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: it can't be written ({reason}); give another name") from error
    finally:
        remove(part)


def remove(path: Path) -> None:
    """Removes a file or folder, if it is there."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink()


def write_text(path: Path, text: str) -> None:
    """Writes a small file of UTF-8, completely or not at all."""
    write_file(path, text.encode())


def write_file(path: Path, content: bytes) -> None:
    """Writes a small file, completely or not at all."""
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")  # a name that no other process uses
    try:
        part.write_bytes(content)
        put_into_place(part, path)
    finally:
        part.unlink(missing_ok=True)


def read_json(path: Path, missing_ok: bool = False) -> Any:
    """Reads a JSON file; a missing file gives {} if `missing_ok`."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # of lists that are nested thousands of times
        if missing_ok and isinstance(error, FileNotFoundError):
            return {}
        raise InputError(f"{path}: it can't be read as JSON ({error})") from error


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksums(folder: Path, names: Iterable[str]) -> str:
    """The lines of SHA256SUMS for these files of a folder."""
    return "".join(f"{file_sha256(folder / name)}  {name}\n" for name in names)


def inside(folder: Path, name: str) -> Path:
    """The path of something in a folder that a file in the folder names; refuses a name that leads out of it."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise InputError(f"{folder}: a file in it names {name!r}, which is outside of this folder; it is not read")
    return folder / name


def toml_files(folder: Traversable, prefix: str = "") -> dict[str, Traversable]:
    """Lists the TOML files in a folder of the package, by their names without the ending and with a prefix."""
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {f"{prefix}{file.name.removesuffix(TOML)}": file for file in files if file.name.endswith(TOML)}


def read_toml(kind: str, name: str | Path, packaged: Mapping[str, Traversable]) -> dict[str, Any]:
    """Reads a TOML file by its path, which ends in ".toml", or by its name among the packaged files.

    `kind` says in errors what the file describes, such as "recipe".
    """
    is_path = Path(name).suffix == TOML
    if not is_path and str(name) not in packaged:
        raise InputError(f"{unknown(kind, str(name), packaged)}; or a file whose name ends in {TOML}")
    try:
        with (Path(name) if is_path else packaged[str(name)]).open("rb") as file:
            content = file.read(LARGEST_TOML + 1)
        if len(content) > LARGEST_TOML:
            raise ValueError(f"more than {LARGEST_TOML:,} bytes, the limit")
        return tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, RecursionError) as error:  # of tables that are nested thousands of times
        raise InputError(f"{kind} {name}: not TOML: {error}") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{kind} {name}: it can't be read ({error})") from error

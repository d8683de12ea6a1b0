"""Files that are written completely or not at all, files of JSON and TOML, and checksums.

Any number of processes may write one file, on several machines too: each writes under a name that
no other has, and moves that file into place. What is moved into place is on the disk before, and
its name is on the disk afterwards, so it outlives a power cut.
"""

import glob
import hashlib
import json
import os
import shutil
import time
import tomllib
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources.abc import Traversable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from zipfile import ZipFile

from isotune.errors import InputError, as_input_error, unknown

CHECKSUMS = "SHA256SUMS"
"""The file in a folder that `sha256sum -c` reads."""

TOML = ".toml"

WINDOWS = os.name == "nt"
"""Windows syncs a file only if it is open for writing, and no folder."""

LARGEST_TOML = 100_000
"""Bytes of a TOML file. A key with n dots takes tomllib n² steps."""

FORGOTTEN = 24 * 60 * 60
"""Seconds after which an unfinished file is that of a killed process."""


@contextmanager
def atomic_write(path: Path, *, new: bool = False) -> Iterator[Path]:
    """Gives a path beside `path` to make a file or folder at.

    It becomes `path` when the block succeeds. The given path belongs to this call alone. It
    replaces a file at `path`, unless `path` has to be `new`. What a process left that was killed a
    day ago or earlier is removed.

    Raises:
        InputError: `path` can't be written, or has to be new and exists. This is known before the
            block starts, if it can be. A process that has made `path` since then is found at the
            end.
    """
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.part")
    try:
        if new and os.path.lexists(path):
            raise _exists(path)
        make_folder(path.parent)
        _remove_forgotten(path)
        # A file that can't be made fails here, and not after the block.
        part.touch()
        part.unlink()
        yield part
        for new_file in part.rglob("*"):
            sync(new_file)
        sync(part)
        _rename(part, path, new)
        sync(path.parent)
    except ConnectionError:
        # It is an error of a pipe or the network, and not of this file.
        raise
    except OSError as error:
        problem = f"{path}: it can't be written ({error.strerror or error})"
        if new:
            problem += "; give another path"
        raise InputError(problem) from error
    finally:
        remove(part)


def _exists(path: Path) -> InputError:
    return InputError(f"{path}: it exists already; give another name")


def check_can_be_written(path: Path) -> None:
    """Checks that a file or folder can be made at `path`, where folders may be missing.

    Raises:
        InputError: no file can be made in the first folder above that exists.
    """
    place = path.parent
    while not os.path.lexists(place):
        place = place.parent
    try:
        TemporaryFile(dir=place).close()
    except OSError as error:
        raise InputError(
            f"{path}: it can't be written, because no file can be made in {place} "
            f"({error.strerror or error})"
        ) from error


def _remove_forgotten(path: Path) -> None:
    """Removes unfinished files beside `path` that killed processes left."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        # Another process may have moved it.
        with suppress(FileNotFoundError):
            if left.stat().st_mtime < time.time() - FORGOTTEN:
                remove(left)


def _rename(part: Path, path: Path, new: bool) -> None:
    """Gives what is complete its final name; a `new` name is taken from no other file or folder."""
    if not new:
        part.replace(path)
        return
    try:
        _rename_to_free(part, path)
    except OSError as error:
        if os.path.lexists(path):
            raise _exists(path) from error
        raise


def _rename_to_free(part: Path, path: Path) -> None:
    """Gives what is complete a name that nothing has; raises OSError if something has it."""
    # On Windows, and for a folder, a rename takes no other name than that of an empty folder.
    if part.is_file() and not WINDOWS:
        try:
            os.link(part, path)
            return
        except OSError:
            # The name is taken, or the file system has no hard links.
            if os.path.lexists(path):
                raise
    part.rename(path)


@contextmanager
def rust_writes() -> Iterator[None]:
    """Raises an OSError where a library in Rust can't write a file.

    Such a library raises a plain `Exception`.
    """
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(str(error)) from error


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
    mode = os.O_RDONLY
    if WINDOWS:
        mode = os.O_RDWR
    number = os.open(path, mode)
    try:
        os.fsync(number)
    except OSError:
        # Some file servers can't do this for folders.
        if not path.is_dir():
            raise
    finally:
        os.close(number)


def remove(path: Path) -> None:
    """Removes a file or folder, if it is there."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink()


def write_text(path: Path, text: str) -> None:
    """Writes a small file of UTF-8, completely or not at all; raises errors as `atomic_write`."""
    with atomic_write(path) as part:
        part.write_bytes(text.encode())


def read_json(path: Path, missing_ok: bool = False) -> Any:
    """Reads a JSON file; a missing file gives {} if `missing_ok`."""
    if missing_ok and not path.exists():
        return {}
    with as_input_error((OSError, ValueError, RecursionError), f"{path}: it can't be read as JSON"):
        return json.loads(path.read_text("utf-8-sig"))


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksums(folder: Path, names: Iterable[str]) -> str:
    """The lines of SHA256SUMS for these files of a folder."""
    return "".join(f"{file_sha256(folder / name)}  {name}\n" for name in names)


def checksum_of(text: str, name: str) -> str:
    """The line of SHA256SUMS for a file that will hold this text."""
    return f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n"


def verify_checksums(folder: Path, missing_ok: Collection[str] = ()) -> bool:
    """Compares the files in a folder with its SHA256SUMS; returns whether there is such a file.

    Files whose names are in `missing_ok` may be missing.
    """
    if not (folder / CHECKSUMS).exists():
        return False
    with as_input_error((OSError, ValueError), f"{folder}: {CHECKSUMS} can't be compared"):
        digest_of = _read_checksums(folder / CHECKSUMS)
        # A name may lead out of the folder, so the files are those that the folder has.
        files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
        for name, digest in sorted(digest_of.items()):
            is_there = name in files and files[name].is_file()
            if is_there and file_sha256(files[name]) != digest:
                raise _damaged(folder, name)
            if not is_there and name not in missing_ok:
                raise InputError(
                    f"{folder}: {name} is missing, which {CHECKSUMS} names; bring it back, or if "
                    f"it was removed on purpose, remove {CHECKSUMS}"
                )
    return True


def _damaged(folder: Path, name: str) -> InputError:
    return InputError(
        f"{folder}: {name} is damaged: it is not the file that {CHECKSUMS} names; if it was "
        f"changed on purpose, remove {CHECKSUMS}"
    )


def _read_checksums(path: Path) -> dict[str, str]:
    """For each name in a SHA256SUMS, the hash; each line has a name, and there is one or more."""
    digest_of = {}
    for line in path.read_text("utf-8").splitlines():
        digest, _, name = line.partition("  ")
        digest_of[name] = digest
    if not digest_of or "" in digest_of:
        raise _damaged(path.parent, path.name)
    return digest_of


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Writes numpy arrays into an .npz file, completely or not at all; raises as `atomic_write`."""
    import numpy as np

    with atomic_write(path) as part, part.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def read_arrays(path: Path) -> dict[str, Any]:
    """The numpy arrays of an .npz file, by name.

    Raises:
        InputError: the file is damaged or can't be read.
        FileNotFoundError: there is no such file.
    """
    import numpy as np

    try:
        with ZipFile(path) as file:
            # numpy reads no checksum.
            damaged_name = file.testzip()
            if damaged_name:
                raise ValueError(f"{damaged_name} is damaged")
        with np.load(path) as arrays:
            return dict(arrays)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{path}: it can't be read ({error.strerror or error})") from error
    # zipfile, zlib and numpy raise many kinds of errors for damaged files.
    except Exception as error:
        raise InputError(f"{path}: not a file of arrays: {error}") from error


def inside(folder: Path, name: str) -> Path:
    """The path of something in a folder that a file in the folder names.

    Raises:
        InputError: the name leads out of the folder.
    """
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise InputError(
            f"{folder}: a file in it names {name!r}, which is outside of this folder; it is not "
            "read"
        )
    return folder / name


def toml_files(folder: Traversable, prefix: str = "") -> dict[str, Traversable]:
    """The TOML files in a folder of the package, by the prefix and the name without its ending."""
    files = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(TOML):
            files[f"{prefix}{file.name.removesuffix(TOML)}"] = file
    return files


def read_toml(kind: str, name: str | Path, packaged: Mapping[str, Traversable]) -> dict[str, Any]:
    """Reads a TOML file by its path, or by its name among the packaged files.

    Errors say its `kind`, as "recipe".
    """
    file: Path | Traversable
    if Path(name).suffix == TOML:
        file = Path(name)
    elif str(name) in packaged:
        file = packaged[str(name)]
    else:
        raise unknown(kind, str(name), packaged, f"; a file's name ends in {TOML}")
    with as_input_error(
        (OSError, ValueError, RecursionError), f"{kind} {name}: it can't be read as TOML"
    ):
        with file.open("rb") as stream:
            content = stream.read(LARGEST_TOML + 1)
        if len(content) > LARGEST_TOML:
            raise ValueError(f"more than {LARGEST_TOML:,} bytes, the limit")
        # Notepad may write a byte order mark.
        return tomllib.loads(content.decode("utf-8-sig"))

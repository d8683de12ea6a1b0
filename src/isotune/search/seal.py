"""SHA256SUMS of an index: which files of its table are on the disk, and their checksums.

LanceDB does not wait until a file is on the disk, and it has no checksums. But it never changes a file that it has
written, besides its hint at the last version.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from isotune.errors import InputError
from isotune.files import sync, write_text

CHECKSUMS = "SHA256SUMS"
HINT = "latest_version_hint.json"
CHANGING = re.compile(rf"{re.escape(HINT)}|\..*|.*#\d+")  # the hint, and files that are being written


def seal(folder: Path, table: Path) -> None:
    """Brings the table of the index in a folder to the disk, and lists its files.

    Files that are listed already are not read again.
    """
    paths = sorted(table.rglob("*"))
    files = [path for path in paths if path.is_file() and not CHANGING.fullmatch(path.name)]
    names = {path.relative_to(folder).as_posix(): path for path in files}
    known = _listed(folder)
    for name in names.keys() - known.keys():
        sync(names[name])
    for place in (*(path for path in paths if path.is_dir()), table, folder):
        sync(place)
    sums = {name: known.get(name) or _sha256(path) for name, path in names.items()}
    write_text(folder / CHECKSUMS, "".join(f"{digest}  {name}\n" for name, digest in sums.items()))


def verify(folder: Path) -> None:
    """Compares the table of an index with its list. LanceDB may have removed a file since it was listed.

    Raises:
        InputError: a file has changed.
    """
    for name, digest in _listed(folder).items():
        try:
            if _sha256(folder / name) == digest:
                continue
        except FileNotFoundError:
            continue
        except (OSError, ValueError):  # the list is damaged: it names a folder, or no path
            name = CHECKSUMS
        raise InputError(
            f"{folder}: {name} is damaged: it is not the file that {CHECKSUMS} names; remove the folder and make the "
            "index again"
        )


def _listed(folder: Path) -> dict[str, str]:
    """{file: SHA-256} of the list; empty if there is none.

    Raises:
        InputError: the list can't be read.
    """
    path = folder / CHECKSUMS
    try:
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: it can't be read ({error}); remove it, and the index is not compared") from error
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

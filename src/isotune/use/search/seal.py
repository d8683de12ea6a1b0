"""SHA256SUMS of an index: which files of its table are on the disk, and their checksums.

LanceDB does not wait until a file is on the disk, and it has no checksums. But it never changes a file that it has
written, besides its hint at the last version.
"""

from __future__ import annotations

import re
from pathlib import Path

from isotune.encoder.format.checksums import CHECKSUMS, file_sha256, read_checksums
from isotune.errors import InputError
from isotune.files import inside, sync, write_text

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
    sums = {name: known.get(name) or file_sha256(path) for name, path in names.items()}
    write_text(folder / CHECKSUMS, "".join(f"{digest}  {name}\n" for name, digest in sums.items()))


def is_sealed(folder: Path) -> bool:
    """Whether the index in a folder has a list of files, so a commit too."""
    return (folder / CHECKSUMS).exists()


def verify(folder: Path) -> None:
    """Compares the table of an index with its list. LanceDB may have removed a file since it was listed.

    Raises:
        InputError: a file has changed.
    """
    for name, digest in _listed(folder).items():
        try:
            path = inside(folder, name)
            if path.exists() and not path.is_file():
                name = CHECKSUMS
            elif not path.exists() or file_sha256(path) == digest:
                continue
        except FileNotFoundError:
            continue
        except (InputError, OSError, ValueError):  # the list is damaged: it names no file of the index
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
        return read_checksums(path) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: it can't be read ({error}); remove it, and the index is not compared") from error

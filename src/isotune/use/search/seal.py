"""SHA256SUMS of an index: which files of its table are on the disk, and their checksums.

LanceDB does not wait until a file is on the disk, and it has no checksums. But it never changes a file that it has
written, besides its hint at the last version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from isotune.encoder.format.checksums import CHECKSUMS, file_sha256, read_checksums
from isotune.errors import InputError
from isotune.files import sync, write_text

HINT = "latest_version_hint.json"
CHANGING = re.compile(rf"{re.escape(HINT)}|\..*|.*#\d+")  # the hint, and files that are being written


def seal(folder: Path, table: Path) -> None:
    """Brings the table of the index in a folder to the disk, and lists its files; listed files are not read again."""
    listed = _listed(folder) if (folder / CHECKSUMS).exists() else {}
    sums = {}
    for name, path in _files(folder, table):
        if name not in listed:
            sync(path)
        sums[name] = listed.get(name) or file_sha256(path)
    for place in (*(path for path in table.rglob("*") if path.is_dir()), table, folder):
        sync(place)
    write_text(folder / CHECKSUMS, "".join(f"{digest}  {name}\n" for name, digest in sums.items()))


def verify(folder: Path, table: Path) -> None:
    """Compares the table of the index in a folder with its list. LanceDB may have removed a file since it was listed.

    Raises:
        InputError: a file has changed, or the list can't be read.
    """
    listed = _listed(folder)
    for name, path in _files(folder, table):
        if name in listed and file_sha256(path) != listed[name]:
            raise InputError(
                f"{folder}: {name} is damaged: it is not the file that {CHECKSUMS} names; remove the folder and make "
                "the index again"
            )


def _files(folder: Path, table: Path) -> Iterator[tuple[str, Path]]:
    """The files of the table that never change, with their names in the list."""
    for path in sorted(table.rglob("*")):
        if path.is_file() and not CHANGING.fullmatch(path.name):
            yield path.relative_to(folder).as_posix(), path


def _listed(folder: Path) -> dict[str, str]:
    """{file: SHA-256} of the list."""
    path = folder / CHECKSUMS
    try:
        return read_checksums(path)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: it can't be read ({error}); isotune index writes it again if you remove it"
        ) from error

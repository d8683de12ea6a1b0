"""Which files of text become which files of vectors."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from isotune.data import DATASETS
from isotune.data.records import format_of
from isotune.data.sources import files_of
from isotune.errors import InputError


class Part(NamedTuple):
    """A file of text, and the name of its file of vectors inside the folder, such as "2024/part-07.parquet"."""

    source: Path
    name: str


def find_parts(sources: Sequence[str], suffix: str) -> list[Part]:
    """The parts of all sources, in their order.

    A file is named after its source. Files that match a pattern keep their folders below the pattern's fixed beginning,
    so `logs/**/*.txt` gives `2024/part-07.parquet` for `logs/2024/part-07.txt`.

    Raises:
        InputError: there is no source, or a source is no file or pattern, or its format is unknown; or two files would
            get the same name.
    """
    if not sources:
        raise InputError("no files: name at least one file of text")
    parts: dict[str, Part] = {}
    for source in sources:
        if source == "-" or source.startswith("hub:") or source.partition(":")[0] in DATASETS:
            raise InputError(f"{source}: a folder of vectors gets a file for each file; name files or a pattern")
        for part in _parts_of(source, suffix):
            known = parts.setdefault(part.name, part)
            if known.source != part.source:
                raise InputError(
                    f"{known.source} and {part.source}: both would become {part.name}; encode them into two folders"
                )
    return list(parts.values())


def _parts_of(source: str, suffix: str) -> Iterator[Part]:
    for path in files_of(source):
        format_of(path)
        stem = path.with_suffix("") if path.suffix.lower() == ".gz" else path
        yield Part(path, stem.relative_to(_fixed_beginning(source)).with_suffix(suffix).as_posix())


def _fixed_beginning(pattern: str) -> Path:
    """The folders of a path or pattern before the first that has a wildcard."""
    fixed = Path()
    for folder in Path(pattern).parts[:-1]:
        if glob.has_magic(folder):
            break
        fixed /= folder
    return fixed

"""Files that are there whole or not at all, and TOML files, the package's own by name."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from isotune.errors import InputError, unknown

TOML = ".toml"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, beside `path`; it takes its place when the block ends well, and is removed otherwise."""
    part = path.with_name(f"{path.name}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes a small file, whole or not at all."""
    with replacing(path) as part:
        part.write_text(text, "utf-8")


def toml_files(folder: Traversable, prefix: str = "") -> dict[str, Traversable]:
    """The TOML files of a folder of the package by their names, without the ending."""
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {f"{prefix}{file.name.removesuffix(TOML)}": file for file in files if file.name.endswith(TOML)}


def read_toml(kind: str, name: str | Path, packaged: Mapping[str, Traversable]) -> dict[str, Any]:
    """The table of a TOML file, or of one of the package by its name.

    Args:
        kind: what it is, for errors.
        name: a path that ends in ".toml", or a key of `packaged`.
        packaged: the package's own.

    Raises:
        InputError: there is neither, it can't be read, or it isn't TOML.
    """
    own = Path(name).suffix != TOML
    if own and str(name) not in packaged:
        raise unknown(kind, str(name), [*packaged, f"FILE{TOML}"])
    try:
        return tomllib.loads((packaged[str(name)] if own else Path(name)).read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{kind} {name}: not TOML: {error}") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{kind} {name}: it can't be read ({error})") from error

"""Studies: comparisons as files. Arms x grid x seeds are run once each and become one table, its tests and its figures.

The files are in `papers/`, one for each table and figure of the papers with the numbers printed there, and in `own/`.
"""

from __future__ import annotations

import tomllib
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from isotune.errors import InputError, unknown
from isotune.studies.study import Arm, FigureSpec, Published, Study

__all__ = ["Arm", "FigureSpec", "Published", "Study", "read_study", "study_names"]


def study_names() -> list[str]:
    """The studies that come with the package, as "consert/table4" and "own/methods"."""
    return sorted(_packaged())


def read_study(name: str | Path) -> Study:
    """A study of the package, or of a TOML file.

    Raises:
        InputError: there is neither, it isn't TOML, or it says what a study can't.
    """
    path = Path(name)
    if path.suffix == ".toml":
        try:
            text = path.read_text("utf-8")
        except (OSError, ValueError) as error:
            raise InputError(f"study {path}: it can't be read ({error})") from error
    elif str(name) in (packaged := _packaged()):
        text = packaged[str(name)].read_text("utf-8")
    else:
        raise unknown("study", str(name), [*packaged, "FILE.toml"])
    try:
        return Study.from_table(tomllib.loads(text), f"study {name}")
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"study {name}: not TOML: {error}") from error


def _packaged() -> dict[str, Traversable]:
    room = resources.files(__name__)
    papers = room / "papers"
    folders = [*(papers.iterdir() if papers.is_dir() else ()), room / "own"]
    return {
        f"{folder.name}/{file.name.removesuffix('.toml')}": file
        for folder in folders
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(".toml")
    }

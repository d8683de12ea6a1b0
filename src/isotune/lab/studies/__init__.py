"""Studies: comparisons as files. Arms x grid x seeds are run once each and become one table, its tests and its figures.

The files are in `papers/`, one for each table and figure of the papers with the numbers printed there, and in `own/`.
"""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from isotune.files import read_toml, toml_files
from isotune.lab.studies.study import Arm, FigureSpec, Published, Study

__all__ = ["Arm", "FigureSpec", "Published", "Study", "paper_names", "read_study", "study_names"]


def study_names() -> list[str]:
    """The studies that come with the package, as "consert/table4" and "own/methods"."""
    return sorted(_packaged())


def paper_names() -> list[str]:
    """Those of them that are a paper's table or figure."""
    return [name for name in study_names() if not name.startswith("own/")]


def read_study(name: str | Path) -> Study:
    """A study of the package, or of a TOML file.

    Raises:
        InputError: there is neither, it isn't TOML, or it says what a study can't.
    """
    return Study.from_table(read_toml("study", name, _packaged()), f"study {name}")


def _packaged() -> dict[str, Traversable]:
    room = resources.files(__name__)
    folders = [*(folder for folder in (room / "papers").iterdir() if folder.is_dir()), room / "own"]
    return {name: file for folder in folders for name, file in toml_files(folder, f"{folder.name}/").items()}

"""Studies: comparisons as TOML files.

Arms x grid x seeds are run once each, and become a table, tests and figures.

| step | module |
|---|---|
| what a study file may say | `study.py` |
| the runs of a study, what they need, and the key of each | `plan.py`, `run_key.py` |
| one run, here or on Ray | `job.py` |
| the scores of a run, and the check of their names | `scores.py` |
| the lines of its table | `lines.py`, `wording.py` |
| which differences are real | `comparison.py` |
| figures, results on disk and page | `figures.py`, `page.py` |
| its table for a paper | `table.py` |
| all of it, in order, and the runs of a study | `run_study.py` |
| what the runs cost on this machine | `cost.py` |

The papers' tables and figures are in `papers/`, with the numbers that they print. Short studies of
what the papers claim are in `claims/`, and other studies in `own/`.
"""

from collections.abc import Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import chain
from pathlib import Path

from isotune.errors import InputError
from isotune.files import TOML, read_toml, toml_files
from isotune.lab.studies.study import AddedArms, Arm, Published, Study


def study_names() -> list[str]:
    """The names of the package's studies, such as "consert/table4" and "own/protocol"."""
    return sorted(_packaged())


def paper_names() -> list[str]:
    """The names of those studies that are a paper's table or figure."""
    return [name for name in study_names() if not name.startswith(("claims/", "own/"))]


def read_study(name: str | Path, arms: Sequence[str | Path] = ()) -> Study:
    """Reads a study of the package by its name, or a TOML file by its path.

    `arms` are added to its own. Each is a TOML file with [[arms]], or "NAME=RECIPE" with a recipe
    or its TOML file.
    """
    table = read_toml("study", name, _packaged())
    added = []
    for arm in chain.from_iterable(map(_read_arms, arms)):
        added.append({**arm.model_dump(exclude_unset=True), "added": True})
    if added:
        table["arms"] = [*table.get("arms", ()), *added]
    return Study.from_table(table, f"study {name}")


def study_text(name: str | Path) -> str:
    """The TOML of a study, as its file has it."""
    read_study(name)
    file: Path | Traversable = Path(name)
    packaged = _packaged()
    if str(name) in packaged:
        file = packaged[str(name)]
    return file.read_text("utf-8")


def _read_arms(text: str | Path) -> Sequence[Arm]:
    """The arms of a file, or the arm that "NAME=RECIPE" is."""
    name, equals, recipe = str(text).partition("=")
    if name and recipe:
        return [Arm(name=name, recipe=recipe)]
    if equals or Path(text).suffix != TOML:
        raise InputError(
            f"arm '{text}': give a TOML file with [[arms]], or NAME=RECIPE, such as "
            "SimCSE=simcse-unsup"
        )
    return AddedArms.from_table(read_toml("arms", text, {}), f"arms {text}").arms


def _packaged() -> dict[str, Traversable]:
    room = resources.files(__name__)
    papers = [folder for folder in (room / "papers").iterdir() if folder.is_dir()]
    files: dict[str, Traversable] = {}
    for folder in (*papers, room / "claims", room / "own"):
        files.update(toml_files(folder, f"{folder.name}/"))
    return files

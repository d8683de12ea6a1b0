"""The layout is kept: a module imports from its own room and those before it."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "isotune"

# The path of the data: a room may import from those before it and from no other.
ORDER = """
    version errors console files registry plugins cluster bundled data views losses kernels encoder
    methods recipes evaluation report engine training lab use use.bulk use.search use.export
    use.serve cli __main__
"""
ROOMS = ORDER.split()


def modules() -> Iterator[Path]:
    """Every module but the package's door, which may name any room (lazily: see test_package)."""
    yield from (path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py")


def imported(path: Path) -> Iterator[str]:
    """The full names of what a module imports, at its top or inside functions, in absolute form.

    `from a import b` counts as `a.b`, whether b is a module or a name in one.
    """
    for node in ast.walk(ast.parse(path.read_text(), path.name)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            folder = path.relative_to(PACKAGE.parent).parts[: -node.level] if node.level else ()
            base = ".".join([*folder, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def room(name: str) -> str:
    """The room of a name: losses of isotune.losses.pairs, use.search of isotune.use.search.x."""
    _, *parts = name.split(".")
    inner = ".".join(parts[:2])
    return inner if inner in ROOMS else parts[0]


def normal(distribution: str) -> str:
    """The one spelling of a distribution's name: tomli_w is tomli-w, Jinja2 is jinja2."""
    return distribution.lower().replace("_", "-")


def test_a_module_imports_from_the_rooms_before_its_own() -> None:
    wrong = []
    for path in modules():
        here = room(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
        if here not in ROOMS:
            wrong.append(f"{path.relative_to(ROOT)} is in no room")
            continue
        allowed = {"__version__", *ROOMS[: ROOMS.index(here) + 1]}
        wrong += [
            f"{path.relative_to(ROOT)} imports {name}"
            for name in imported(path)
            if name.startswith("isotune.") and room(name) not in allowed
        ]
    assert wrong == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Nor do they for the sake of types.

    The doors of rooms are left out: they name what is imported when it is used.
    """
    files = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in modules()
    }
    arrows = {
        name: {name.rpartition(".")[0] if name not in files else name for name in imported(path)}
        & files.keys()
        for name, path in files.items()
    }
    TopologicalSorter(arrows).prepare()


def test_the_lab_comes_in_through_the_front_doors() -> None:
    """The lab imports public names from a room itself, never from a module inside the room."""
    wrong = []
    for path in sorted((PACKAGE / "lab").rglob("*.py")):
        for name in imported(path):
            package, *inside = name.split(".")
            if package == "isotune" and inside and inside[0] != "lab":
                is_module = PACKAGE.joinpath(*inside).with_suffix(".py").exists()
                if len(inside) != 2 or is_module or inside[1].startswith("_"):
                    wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert wrong == []


def test_errors_name_options_as_python_does() -> None:
    """Errors of the command line name flags.

    Elsewhere a flag stands in a whole command, or beside what it is in Python.
    """
    wrong = []
    for path in (path for path in modules() if path.parent.name != "cli"):
        for node in ast.walk(ast.parse(path.read_text(), path.name)):
            if isinstance(node, ast.Raise):
                text = "".join(
                    str(part.value) for part in ast.walk(node) if isinstance(part, ast.Constant)
                )
                if re.search("--[a-z]", text) and not re.search("isotune [a-z]|in Python", text):
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {text}")
    assert wrong == []


@cache
def distributions() -> Mapping[str, list[str]]:
    """The distributions of each package that is installed; to look them up takes a second."""
    return packages_distributions()


def packages(path: Path) -> Iterator[str]:
    """The distributions that a module may mean by what it imports from outside."""
    for name in imported(path):
        package = name.partition(".")[0]
        if package not in sys.stdlib_module_names and package != "isotune":
            yield from map(normal, distributions().get(package, [package]))


def declared(*requirements: str) -> set[str]:
    """The distributions that requirements name."""
    return {normal(re.split(r"[^\w.-]", requirement)[0]) for requirement in requirements}


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_a_module_imports_only_what_is_declared() -> None:
    extras = [names for extra, names in PROJECT["optional-dependencies"].items() if extra != "dev"]
    allowed = declared(*chain(PROJECT["dependencies"], *extras))
    assert [
        (path.name, name) for path in modules() for name in packages(path) if name not in allowed
    ] == []


def test_what_is_always_installed_is_imported_by_training_evaluating_or_encoding() -> None:
    rooms = {*ROOMS[: ROOMS.index("lab")], "use.bulk", "cli"}
    paths = (
        path
        for path in modules()
        if room(".".join(path.relative_to(PACKAGE.parent).parts)) in rooms
    )
    assert (
        declared(*PROJECT["dependencies"]) - {name for path in paths for name in packages(path)}
        == set()
    )

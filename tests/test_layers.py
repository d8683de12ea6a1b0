"""The layout is kept: a module imports from its own room and those before it, and stays short."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "isotune"

# The path of the data: a room may import from those before it and from no other.
ROOMS = (
    "lazy",
    "errors",
    "files",
    "bundled",
    "data",
    "views",
    "losses",
    "kernels",
    "encoder",
    "methods",
    "recipes",
    "evaluation",
    "report",
    "training",
    "lab",
    "integrations",
    "use.bulk",
    "use.search",
    "use.map",
    "use.export",
    "use.serve",
    "cli",
    "__main__",
)
LONGEST = 320  # lines


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
    """The room of a full name: losses of isotune.losses.info_nce, and use.search of isotune.use.search.index."""
    _, *parts = name.split(".")
    return ".".join(parts[:2] if parts[0] == "use" else parts[:1])


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


def test_the_lab_comes_in_through_the_front_doors() -> None:
    """The lab imports public names, and those from a room itself, never from a module inside the room."""
    wrong = []
    for path in sorted((PACKAGE / "lab").rglob("*.py")):
        for name in imported(path):
            package, *inside = name.split(".")
            if package == "isotune" and inside and inside[0] != "lab":
                is_module = PACKAGE.joinpath(*inside).with_suffix(".py").exists()
                if len(inside) != 2 or is_module or inside[1].startswith("_"):
                    wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert wrong == []


def test_a_module_imports_only_what_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [names for extra, names in project["optional-dependencies"].items() if extra != "dev"]
    requirements = chain(project["dependencies"], *extras)
    declared = {normal(re.split(r"[^\w.-]", requirement)[0]) for requirement in requirements}
    distributions = packages_distributions()  # rich: [rich]

    wrong = []
    for path in modules():
        for name in imported(path):
            package = name.partition(".")[0]
            if package in sys.stdlib_module_names or package == "isotune":
                continue
            if declared.isdisjoint(map(normal, distributions.get(package, [package]))):
                wrong.append(f"{path.relative_to(ROOT)} imports {package}")
    assert wrong == []


def test_a_module_is_short() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in modules()}
    assert {path: count for path, count in lines.items() if count > LONGEST} == {}


LONGEST_FUNCTION = 50  # lines, without the docstring
MOST_PARAMETERS = 8  # of a constructor
VAGUE = {"found", "it", "mine", "one", "own", "what"}  # names that could name the thing instead


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Every function of the package, and where it stands."""
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(), path.name)):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def parameters(function: ast.FunctionDef) -> list[str]:
    """The names of a function's parameters, without self."""
    arguments = function.args
    return [argument.arg for argument in [*arguments.args, *arguments.kwonlyargs] if argument.arg != "self"]


def test_a_function_is_short() -> None:
    lengths = {}
    for place, node in functions():
        docstring = (ast.get_docstring(node) or "").splitlines()
        lengths[place] = (node.end_lineno or 0) - node.lineno + 1 - len(docstring)
    assert {place: length for place, length in lengths.items() if length > LONGEST_FUNCTION} == {}


def test_a_constructor_has_few_parameters() -> None:
    constructors = {place: parameters(node) for place, node in functions() if node.name == "__init__"}
    assert {place: names for place, names in constructors.items() if len(names) > MOST_PARAMETERS} == {}


def test_no_name_is_vague() -> None:
    vague = [place for place, node in functions() if VAGUE.intersection(parameters(node))]
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(), path.name)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE:
                vague.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.id}")
    assert vague == []

"""The package as it is installed: its version, what importing it costs, and what its wheel holds."""

from __future__ import annotations

import doctest
import importlib
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

import isotune

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"


def test_the_version_is_that_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert isotune.__version__ == project["version"]


def test_importing_isotune_imports_the_standard_library_only() -> None:
    code = "import sys; before = set(sys.modules); import isotune; print(*(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = {name.partition(".")[0] for name in run.stdout.split()}
    assert imported - sys.stdlib_module_names == {"isotune"}


def test_every_public_name_is_there() -> None:
    assert set(isotune.__all__) <= set(dir(isotune))
    objects = [isotune.Encoder, isotune.InputError, isotune.evaluate, isotune.train]
    assert [value.__name__ for value in objects] == ["Encoder", "InputError", "evaluate", "train"]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'isotune' has no attribute 'encode'"):
        _ = isotune.encode  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(SOURCES.rglob("*.py")) if ">>>" in path.read_text()],
    ids=lambda path: path.stem,
)
def test_the_examples_in_the_docstrings_are_right(path: Path) -> None:
    name = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
    results = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))
    assert results.attempted
    assert not results.failed


def test_the_wheel_holds_all_of_the_package(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("isotune-*.whl")

    files = [path.relative_to(SOURCES) for path in (SOURCES / "isotune").rglob("*") if path.is_file()]
    there = {path.as_posix() for path in files if "__pycache__" not in path.parts}
    with ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("isotune/")}
    assert held == there
    assert "isotune/py.typed" in held
    assert wheel.stat().st_size < 25e6

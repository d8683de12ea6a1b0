"""The options that completion, `help` and type checkers know are those of the option models.

`python -m tests.training.test_options` writes what type checkers read, after an option has changed.
"""

import re
import subprocess
import sys
from inspect import signature
from pathlib import Path
from typing import Any, get_args

import isotune
from isotune.recipes.keywords import keywords

ROOT = Path(__file__).parents[2]
STUB = ROOT / "src" / "isotune" / "training" / "options.pyi"
HEADER = '''"""The options of `isotune.train`; made by `python -m tests.training.test_options`."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Optional, TypedDict, Union

from isotune.evaluation import TaskRows

class Options(TypedDict, total=False):
    """Values that differ from the recipe's. Not every method has every option."""

'''
TASKS = {"dev": "str | TaskRows", "tasks": "Sequence[str | TaskRows]"}
WIDER = {
    "model": "Any",
    "as_released": "Mapping[str, Any]",
    **TASKS,
}  # what the options take beside what they hold


def spelled(kind: Any) -> str:
    """A type as a stub says it; a tuple may be given as any sequence."""
    text = str(kind) if get_args(kind) else kind.__name__
    text = re.sub(r"tuple\[(.+), (\.\.\.|\1)]", r"Sequence[\1]", text.replace("typing.", ""))
    return text.replace("NoneType", "None").replace("dict", "Mapping").replace("'", '"')


def stub() -> str:
    lines = (
        f"    {name}: {WIDER.get(name) or spelled(kind)}\n" for name, kind in keywords().items()
    )
    return HEADER + "".join(lines)


def test_type_checkers_read_the_options_of_the_models() -> None:
    assert STUB.read_text("utf-8") == stub(), "python -m tests.training.test_options"


def test_help_and_completion_show_all_options() -> None:
    assert keywords().keys() < signature(isotune.train).parameters.keys()
    assert {"batch_size", "pooling", "temperature", "time_limit"} < keywords().keys()


# Calls, each with what a type checker says of it.
CALLS = {
    'batch_size=8, tasks=["c"], method="simcse", temperature=0.1': "",
    "batchsize=8": (
        'Unexpected keyword argument "batchsize" for "train"; did you mean "batch_size"?'
    ),
    'batch_size="8"': (
        'Argument "batch_size" to "train" has incompatible type "str"; expected "int"'
    ),
    'schedule="quadratic"': 'Argument "schedule" to "train" has incompatible type',
}


def test_a_type_checker_finds_what_is_wrong(tmp_path: Path) -> None:
    lines = ["import isotune", *(f'isotune.train("a", out="b", {options})' for options in CALLS)]
    (tmp_path / "calls.py").write_text("\n".join(lines) + "\n")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        "pyproject.toml",
        str(tmp_path / "calls.py"),
    ]
    said = subprocess.run(
        command, cwd=ROOT, env={"MYPYPATH": "src"}, capture_output=True, text=True, check=False
    ).stdout
    for number, found in enumerate(CALLS.values(), 2):
        errors = [line for line in said.splitlines() if f"calls.py:{number}: error" in line]
        assert len(errors) == bool(found), said
        assert not found or found in errors[0]


if __name__ == "__main__":
    STUB.write_text(stub(), "utf-8")

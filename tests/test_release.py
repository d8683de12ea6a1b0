"""What a release is made of agrees: versions of Python, the wheel's name, workflows, the image."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PYTHONS = [
    name.rpartition(" ")[2]
    for name in PROJECT["classifiers"]
    if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", name)
]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
workflows = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def jobs(path: Path) -> dict[str, Any]:
    """The jobs of a workflow."""
    return yaml.safe_load(path.read_text("utf-8"))["jobs"]


def test_the_versions_of_python_agree() -> None:
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    for job in jobs(ROOT / ".github" / "workflows" / "tests.yml").values():
        assert job["strategy"]["matrix"]["python"] == PYTHONS
    *first, last = PYTHONS
    words = f"Python {', '.join(first)} or {last}"
    for name in ("README.md", "CONTRIBUTING.md"):
        assert words in (ROOT / name).read_text("utf-8")
    tried = re.findall(r"command -v python([\d.]+)", (ROOT / "Makefile").read_text("utf-8"))
    assert tried == PYTHONS


@workflows
def test_a_workflow_takes_actions_by_commit_and_may_only_read(path: Path) -> None:
    content = path.read_text("utf-8")
    assert yaml.safe_load(content)["permissions"] == {"contents": "read"}
    uses = re.findall(r"uses: (\S+)(.*)", content)
    assert uses
    for action, comment in uses:
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action)
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment)


@workflows
def test_a_workflow_runs_what_there_is(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for job in jobs(path).values():
        for step in job["steps"]:
            command = step.get("run", "")
            for target in re.findall(r"\bmake ([\w-]+)", command):
                assert f"\n{target}:" in makefile
            for folder in re.findall(r"\btests/\w+", command):
                assert (ROOT / folder).is_dir()


def test_the_core_is_tested_without_make_by_the_same_tests() -> None:
    core = re.search(r"^CORE := (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert core is not None
    commands = [
        step.get("run", "") for step in jobs(ROOT / ".github/workflows/tests.yml")["core"]["steps"]
    ]
    assert f"python -m pytest {core[1]} tests/windows" in commands


def test_the_image_is_made_of_what_there_is() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
    assert set(re.findall(r"^FROM python:([\d.]+)-slim", dockerfile, re.MULTILINE)) <= set(PYTHONS)
    extras = re.search(r'"\.\[([\w,]+)]"', dockerfile)
    assert extras is not None
    assert set(extras[1].split(",")) <= set(PROJECT["optional-dependencies"])
    # .dockerignore lets in what is copied, and nothing else.
    copied = set()
    for names in re.findall(r"^COPY (?!--)(.*) \S+$", dockerfile, re.MULTILINE):
        copied.update(names.split())
    let_in = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text("utf-8"), re.MULTILINE)
    assert copied == set(let_in)
    for name in copied:
        assert (ROOT / name).exists()


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs" / "stories").glob("*.ipynb")), ids=lambda path: path.stem
)
def test_a_story_says_how_it_is_run_in_colab(path: Path) -> None:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    install = "".join(cells[1]["source"])
    rest = "".join("".join(cell["source"]) for cell in cells[2:])
    wheel = f"isotune-{PROJECT['version']}-py3-none-any.whl"
    extras = re.search(rf'^    %pip install "{re.escape(wheel)}(.*)"$', install, re.MULTILINE)
    assert extras is not None
    assert ("search" in extras[1]) == bool(re.search(r"isotune index|Index\.", rest))
    assert ("serve" in extras[1]) == ("isotune serve" in rest)
    for data in (ROOT / "docs" / "stories").glob("*.tsv"):
        assert (f"`{data.name}`" in install) == (
            f'"{data.name}"' in rest or f" {data.name}" in rest
        )

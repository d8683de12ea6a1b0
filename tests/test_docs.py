"""The links, paths, commands, flags, names and imports of the documentation exist."""

import hashlib
import importlib
import inspect
import json
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from itertools import chain
from pathlib import Path

import pytest

from isotune.cli import main
from isotune.cli.app import COMMANDS
from isotune.engine.loop import train_steps
from isotune.engine.step import Stepper
from isotune.lab.studies import study_names
from isotune.lab.studies.page import Results
from isotune.methods import METHODS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "isotune"
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").glob("*.md"))]
ROOMS = [path.name for path in PACKAGE.iterdir() if path.is_dir() and not path.name.startswith("_")]
TOP_FOLDERS = ["src", "tests", "docs", "benchmarks", "tools"]

FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED_BLOCK = re.compile(r"(?<=\n\n)(?: {4}.*\n)+")
CODE_SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\[[^]]*]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
PATH = re.compile(rf"(?<![\w./$-])(?:{'|'.join([*TOP_FOLDERS, *ROOMS])})/[\w./-]*")
OF_ALL = {"--help", "--version", "--install-completion"}  # of isotune without a command, too
FLAG_OF_HELP = re.compile(r"^│ \*? *((?:--[a-z][a-z0-9-]* ?)+)", re.MULTILINE)

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


@pages
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in LINK.findall(
        CODE_SPAN.sub("", INDENTED_BLOCK.sub("", FENCE.sub("", page.read_text("utf-8"))))
    ):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in _anchors(target), f"{page.name}: {link}"


@pages
def test_every_path_in_code_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    for code in [*_blocks(text), *_spans(text)]:
        for path in PATH.findall(code):
            folder = ROOT if path.partition("/")[0] in TOP_FOLDERS else PACKAGE
            assert (folder / path.rstrip(".")).exists(), f"{page.name}: {path}"


@pages
def test_every_command_and_flag_exists(page: Path, flags: Callable[..., set[str]]) -> None:
    for words in _commands(page.read_text("utf-8")):
        given = {word.partition("=")[0] for word in words if word.startswith("--")} - OF_ALL
        recipe = _value(words, "--recipe")
        if "--pairs" in words and words[0] == "train":
            recipe = recipe or "pairs"
        if not words[0].startswith("--"):
            given -= flags(words[0], _value(words, "--method"), recipe)
        assert not given, f"{page.name}: isotune {' '.join(words)}: {given}"


@pages
def test_every_flag_by_itself_is_one_of_some_command(
    page: Path, flags: Callable[..., set[str]]
) -> None:
    named = {
        span.partition(" ")[0].partition("=")[0]
        for span in _spans(page.read_text("utf-8"))
        if span[:2] == "--"
    }
    named -= {*OF_ALL, "--short"}  # the last one is of benchmarks/run.py
    helps = [*((command,) for command in COMMANDS), *(("train", method) for method in METHODS)]
    for words in helps:
        named = named and named - flags(*words)
    assert not named, f"{page.name}: {named}"


@pages
def test_every_recipe_study_and_analysis_exists(page: Path) -> None:
    from isotune.lab.analyses import ANALYSES

    for words in _commands(page.read_text("utf-8")):
        names = [_value(words, "--recipe")]
        if (
            words[0] in ("study", "reproduce")
            and len(words) > 1
            and re.fullmatch(r"[a-z-]+/[a-z0-9-]+", words[1])
        ):
            names.append(words[1])
        if words[0] == "analyse" and len(words) > 1:
            assert words[1] in ANALYSES, f"{page.name}: isotune analyse {words[1]}"
        for name in names:
            if re.fullmatch(r"[a-z0-9/-]+", name):
                assert list(PACKAGE.rglob(f"{name}.toml")), f"{page.name}: {name}"


@pages
def test_every_import_from_isotune_exists(page: Path) -> None:
    code = "\n".join(_blocks(page.read_text("utf-8")))
    for module, names in re.findall(
        r"^ *from (isotune[\w.]*) import ([\w, ]+)", code, re.MULTILINE
    ):
        for name in names.split(","):
            assert hasattr(importlib.import_module(module), name.strip()), (
                f"{page.name}: {module}.{name.strip()}"
            )
    for name in set(re.findall(r"\bisotune\.([A-Za-z]\w+)\(", code)):
        assert hasattr(importlib.import_module("isotune"), name), f"{page.name}: isotune.{name}"


@pytest.mark.parametrize("printed", [train_steps, Stepper.update])
def test_the_page_on_the_architecture_prints_the_loop_and_the_step(
    printed: Callable[..., object],
) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    assert inspect.getsource(printed) in page


def test_the_tables_list_every_method_recipe_and_analysis() -> None:
    from isotune.lab.analyses import ANALYSES

    methods = (ROOT / "docs" / "methods.md").read_text("utf-8")
    analyses = (ROOT / "docs" / "analyses.md").read_text("utf-8")
    rows = re.compile(r"^\| `([a-z-]+)` \|.*\|(.*)\|$", re.MULTILINE)  # the first cell and the last
    assert {name for name, _ in rows.findall(methods)} == set(METHODS)
    recipes = {
        name for _, cell in rows.findall(methods) for name in re.findall(r"[a-z][a-z0-9-]+", cell)
    }
    assert {path.stem for path in (PACKAGE / "recipes").glob("*.toml")} <= recipes
    assert [name for name, _ in rows.findall(analyses)] == list(ANALYSES)


# The commits of rows of docs/claims.md whose results no file has, each with a digest of the numbers
# of its rows. These numbers can't be compared with runs any more, so they stay as they are: a row
# with a new number is made by a study that is run again, and names the file that was kept.
UNKEPT = {
    "087b26f": "5b26d186",
    "2ded3c4": "a176e8e1",
    "601a913": "5793ba15",
    "7dc8336": "a1dc9caa",
    "89cc293": "86b61b7f",
    "be71a17": "6178828f",
    "d05bf21": "d71c9b6b",
    "d95fc9d": "d15023ae",
    "ebf4b57": "dba6cb4a",
    "f2cff30": "c0841427",
    "fdccef6": "c4c0494b",
}

CLAIM = re.compile(r"^\| (?!claim )(.*) \| (.*) \| (.*) \| (.*) \|$", re.MULTILINE)


def _claims() -> list[tuple[str, str, str]]:
    """The claims of docs/claims.md with what was measured and where that is from."""
    text = (ROOT / "docs" / "claims.md").read_text("utf-8")
    return [(claim, measured, origin) for claim, measured, _, origin in CLAIM.findall(text)]


def test_each_row_of_the_claims_has_its_command_and_its_numbers() -> None:
    text = (ROOT / "docs" / "claims.md").read_text("utf-8")
    assert {words[1] for words in _commands(text) if words[0] in ("study", "reproduce")} <= set(
        study_names()
    )
    for claim, measured, origin in _claims():
        printed = set(re.findall(r"\d+\.\d+", measured))
        if link := LINK.fullmatch(origin):
            assert printed <= _kept_numbers(ROOT / "docs" / link[1]), claim
        else:
            assert origin.strip("`") in UNKEPT or (origin == "-" and not printed), claim


def test_a_number_that_no_kept_run_has_is_found() -> None:
    kept = _kept_numbers(ROOT / "docs" / "claims" / "clsr.json")
    assert {"70.84", "10.38"} <= kept
    assert not {"70.85", "10.39"} & kept


@pytest.mark.parametrize("commit", UNKEPT)
def test_numbers_without_a_kept_run_stay_as_they_are(commit: str) -> None:
    numbers = []
    for _, measured, origin in _claims():
        if origin.strip("`") == commit:
            numbers += re.findall(r"[+-]?\d+\.\d+", measured)
    digest = hashlib.blake2b(" ".join(numbers).encode(), digest_size=4).hexdigest()
    assert digest == UNKEPT[commit], f"the numbers of {commit}: {' '.join(numbers)}"


def _kept_numbers(path: Path) -> set[str]:
    """The numbers of a kept file as a row prints them: as they are, and times 100."""
    numbers = set()
    for score in _kept_scores(path.read_text("utf-8")):
        numbers |= {f"{abs(score):.2f}", f"{abs(100 * score):.2f}"}
    return numbers


def _kept_scores(text: str) -> list[float]:
    """The numbers of an analysis, or the means, differences and intervals of a study."""
    if table := json.loads(text).get("table"):
        return [row[key] for row in table for key in ("mean", "spearman") if key in row]
    results = Results.model_validate_json(text)
    means = [
        mean[0] for line in results.lines for score in line.values if (mean := line.summary(score))
    ]
    tests = [(each.test.low, each.test.high) for each in results.comparisons if each.test]
    return [*means, *(each.difference for each in results.comparisons), *chain(*tests)]


@pytest.fixture(scope="module")
def flags() -> Callable[..., set[str]]:
    """The flags that a command's help lists; those of `train` depend on the method or recipe."""

    @cache
    def of(command: str, method: str = "", recipe: str = "") -> set[str]:
        chosen = ["--method", method] if method in METHODS else []
        if (PACKAGE / "recipes" / f"{recipe}.toml").exists():
            chosen = ["--recipe", recipe]
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as help_text:
            patch.setenv("COLUMNS", "200")
            assert main([command, *chosen, "--help"]) == 0, f"isotune {command}"
        return {
            flag for group in FLAG_OF_HELP.findall(help_text.getvalue()) for flag in group.split()
        }

    return of


def _blocks(text: str) -> list[str]:
    """The contents of fenced and indented blocks of code."""
    return FENCE.findall(text) + INDENTED_BLOCK.findall(FENCE.sub("", text))


def _spans(text: str) -> list[str]:
    """What stands in backticks within the text, each in one line."""
    return [" ".join(span.split()) for span in CODE_SPAN.findall(FENCE.sub("", text))]


def _commands(text: str) -> Iterator[list[str]]:
    """The words after "isotune" of every command in the code of a page."""
    lines = [line for block in _blocks(text) for line in block.replace("\\\n", " ").splitlines()]
    for line in [*lines, *_spans(text)]:
        before, isotune, after = line.rpartition("isotune ")
        prompt = before.split("|")[-1].strip()  # behind a pipe, settings of the environment
        if isotune and re.fullmatch(r"(\$|[A-Z_]+=\S+|/usr/bin/time -v| )*", prompt):
            yield shlex.split(after, comments=True)


def _value(words: list[str], flag: str) -> str:
    """What follows a flag; empty without it."""
    return words[words.index(flag) + 1] if flag in words[:-1] else ""


@cache
def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = HEADING.findall(FENCE.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_picture_of_gains_has_the_numbers_of_the_results() -> None:
    rows = (ROOT / "docs" / "results.md").read_text("utf-8").splitlines()
    for gain in json.loads((ROOT / "docs" / "gains.json").read_text("utf-8")):
        row = next(line for line in rows if line.startswith(f"| {gain['have']} |"))
        for name in gain.keys() & {"before", "after"}:
            assert f"{gain[name]:.2f}" in row
        for end in (gain["low"], gain["high"]):
            assert f"{end:+.2f}" in row

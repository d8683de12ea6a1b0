"""The papers' tables and figures.

Each file holds together, and says what the paper's text says, where that is here.
"""

import os
import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from isotune.data import DATASETS
from isotune.evaluation.tasks import GROUPS, TASKS
from isotune.lab.studies import Published, paper_names, read_study
from isotune.lab.studies.plan import plan_runs

NAMES = paper_names()
PAPERS = {name.partition("/")[0] for name in NAMES}

# Lines of the papers' tables that nothing here makes.
REFERENCES = {
    "consert/table2": {
        "Avg. GloVe embeddings",
        "CLEAR-base",
        "IS-BERT-base-NLI",
        "BERT-base-CT",
        "BERT-large-CT",
    },
    "consert/table3": {
        "InferSent - GloVe",
        "Universal Sentence Encoder",
        "BERT-base-CT",
        "BERT-large-CT",
    },
    "self-guided/table1": {"GloVe", "USE"},
    "self-guided/table2": {"UMCC-DLSI-run2 (Rank #1)"},
    "self-guided/table3": {"Cosine baseline", "ENCU (Rank #1)"},
    "bert-cf/table3": {"Label"},
    "bert-cf/table4": {"Label"},
    "bert-cf/table5": {"Label"},
    "bert-cf/table6": {"Label"},
}
# Arms that the papers have no number of.
UNKNOWN = {
    "small-bert/table1": {
        f"BERT-{size}, further pretrained" for size in ("Mini", "Small", "Base", "Large")
    },
    "small-bert/figure2": {
        f"BERT-{size} ({kind})" for size in ("Base", "Large") for kind in ("Sup.", "Unsup.")
    },
}
# Tables whose columns are our rows.
COLUMNS_ARE_ROWS = {f"consert/table{number}" for number in (1, 4)} | {
    f"bert-cf/table{number}" for number in (3, 4, 5, 6)
}
COLUMNS_ARE_ROWS |= {"small-bert/examples"}
# The columns that are means, and of how many others.
AVERAGES = {"senteval-sts": 7, "average": 6, "senteval-50": 7}


def rows(name: str) -> Iterator[dict[str, Any]]:
    """The published rows of a study, their decimal numbers as the file has them."""
    folder, _, file = name.partition("/")
    text = (resources.files("isotune.lab.studies") / "papers" / folder / f"{file}.toml").read_text(
        "utf-8"
    )
    yield from tomllib.loads(text, parse_float=str)["published"]


@pytest.mark.parametrize("name", NAMES)
def test_every_run_can_be_made_and_what_is_published_has_its_place(name: str) -> None:
    study = read_study(name)
    assert study.paper == name.partition("/")[0]
    assert study.source
    runs = plan_runs(study)
    assert {run.arm for run in runs} == {arm.name for arm in study.arms}
    # What a paper's table costs is computed.
    assert not study.cost
    assert all(run.recipe.inputs(run.recipe.stages[0]).data for run in runs if run.recipe)
    # What is published is of an arm, or for reference.
    arms = {arm.name for arm in study.arms} | set(study.statistics)
    assert {row.arm for row in study.published} - arms == REFERENCES.get(name, set())
    # An arm that the paper has no number of is one that others start from.
    without = {arm.name for arm in study.arms} - {row.arm for row in study.published}
    assert without - {arm.start for arm in study.arms} == UNKNOWN.get(name, set())
    # A place is in the grid.
    cells = {(run.arm, frozenset(run.cell.items())) for run in runs}
    placed = [
        (row.arm, frozenset(row.at.items()))
        for row in study.published
        if row.at and not row.analysis
    ]
    assert set(placed) <= cells
    assert len(set(placed)) == len(placed)


@pytest.mark.parametrize("name", [name for name in NAMES if read_study(name).arms])
def test_scores_are_those_of_the_tasks(name: str) -> None:
    """Each column is a task's or a group's, a mean of such, or a run's."""
    study = read_study(name)
    tasks = {member for task in study.tasks for member in (task, *GROUPS.get(task, ()))}
    measures = {f"{task}-{measure}" for task in tasks for measure in ("alignment", "uniformity")}
    assert {key for task in tasks if task not in GROUPS for key in [task.partition(":")[0]]} <= {
        *TASKS,
        *DATASETS,
    }
    rest = (
        {*study.scores}
        - tasks
        - measures
        - {*study.averages}
        - {"dev", "test", "kept_step", "seconds"}
    )
    assert all(
        re.fullmatch(
            r"(dev|test):(sentiment|paraphrase|similarity)|cosine:\d+|predicted:\w+:\d+|encoding:.*",
            key,
        )
        for key in rest
    )


def _mean_is_printed(row: Published, average: str, count: int) -> bool:
    values = [value for key, value in row.scores.items() if key != average]
    return len(values) < count or abs(sum(values) / len(values) - row.scores[average]) < 0.011


@pytest.mark.parametrize("name", [name for name in NAMES if name != "small-bert/table1"])
def test_averages_are_those_of_their_row(name: str) -> None:
    """A slip in one number of a row would show here."""
    study = read_study(name)
    for row in study.published:
        for average in AVERAGES.keys() & row.scores.keys():
            marked = re.match(r"The mean of the \w+ numbers is [\d.]+, not the printed", row.note)
            assert _mean_is_printed(row, average, AVERAGES[average]) is not bool(marked), row.arm


@pytest.fixture(scope="module")
def texts() -> dict[str, list[list[str]]]:
    """The numbers in each line of the papers' texts, in $ISOTUNE_PAPERS."""
    if "ISOTUNE_PAPERS" not in os.environ:
        pytest.skip("$ISOTUNE_PAPERS is not set")
    found = {}
    for paper in PAPERS:
        text = Path(os.environ["ISOTUNE_PAPERS"], f"{paper}.txt").read_text("utf-8")
        text = text.replace(
            "76.6976.6976.69", "76.69"
        )  # damaged, in the self-guided paper's Table 1
        text = re.sub(r"(?<= )\.(?=\d)", "0.", text)  # of the small-BERT paper, section 6
        found[paper] = [
            re.findall(r"(?<![\d.])-?\d+(?:\.\d+)?", line) for line in text.splitlines()
        ]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_text_has_the_numbers(name: str, texts: dict[str, list[list[str]]]) -> None:
    """A row's numbers are in one line of the text, in this order.

    Of a table whose columns are our rows, each number is somewhere.
    """
    lines = texts[name.partition("/")[0]]
    everywhere = {number for line in lines for number in line}
    for row in rows(name):
        if row.get("note", "").startswith("Computed"):
            continue
        deviation = row.get("deviation", {})
        numbers = [
            str(number)
            for key, value in row["scores"].items()
            for number in (value, *([deviation[key]] if key in deviation else []))
        ]
        if name in COLUMNS_ARE_ROWS:
            assert set(numbers) <= everywhere
        else:
            assert any(_in_order(numbers, line) for line in lines), row


def _in_order(numbers: list[str], line: list[str]) -> bool:
    rest = iter(line)
    return all(number in rest for number in numbers)


@pytest.mark.parametrize("name", ["self-guided/table10", "small-bert/table2"])
def test_comparisons_stay_within_a_task(name: str) -> None:
    """A model that was tuned first is compared with the plain model on the same task."""
    tuned = [arm for arm in read_study(name).arms if arm.start]
    assert tuned
    assert all(
        arm.against.partition(" on ")[2] == arm.name.partition(" on ")[2] != "" for arm in tuned
    )


def test_what_small_bert_prints_is_the_best_of_its_grid() -> None:
    study = read_study("small-bert/table1")
    runs = plan_runs(study)
    assert (
        study.best
        == read_study("small-bert/table2").best
        == read_study("small-bert/figure2").best
        == "dev"
    )
    assert {sum(run.arm == arm.name for run in runs) for arm in study.arms} == {1, 3}
    for size in ("Mini", "Small"):  # section 5.3
        rates = {run.cell["learning_rate"] for run in runs if run.arm == f"BERT-{size} (Soft)"}
        assert rates == {2e-4, 3e-5, 5e-5}

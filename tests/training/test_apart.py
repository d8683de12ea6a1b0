"""Pairs that a run sets apart (`test_share`): not trained on, and judging."""

import json
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from isotune import InputError, LabelledPair, LabelledSentence, Pair, ScoredPair, Triplet
from isotune.data import Row
from isotune.data.rows import text_fields
from isotune.recipes import Recipe
from isotune.training.apart import (
    NAME,
    SetApart,
    divided,
    groups_of_common_texts,
    read_set_apart,
)
from tests.conftest import WORDS
from tests.training.conftest import Killed, Train, killed, metrics, resume

# Questions of which two share an answer, and copies of some of them.
ROWS = [Pair(f"what is {row}?", f"it is {row // 2}") for row in range(60)]
COPIES = [Pair("What is 7", "another answer"), Pair("more", "It is 3!")]


def keys(row: Iterable[object]) -> set[str]:
    return {"".join(filter(str.isalnum, text.lower())) for text in row if isinstance(text, str)}


def slow_groups(rows: Sequence[Pair]) -> list[set[int]]:
    """Rows that share a text are joined until nothing changes."""
    groups = [({number}, keys(row)) for number, row in enumerate(rows)]
    while True:
        for one, other in combinations(groups, 2):
            if one[1] & other[1]:
                groups.remove(other)
                one[0].update(other[0])
                one[1].update(other[1])
                break
        else:
            return [numbers for numbers, _ in groups]


def test_rows_with_common_texts_are_groups() -> None:
    rows = [*ROWS, *COPIES]
    found = groups_of_common_texts(rows)
    groups = [{row for row in range(len(rows)) if found[row] == group} for group in set(found)]
    assert sorted(groups, key=min) == sorted(slow_groups(rows), key=min)


@pytest.mark.parametrize("seed", range(5))
def test_no_text_stands_on_both_sides(seed: int) -> None:
    rows = [*ROWS, *COPIES]
    train, test = divided(rows, 0.3, seed)
    assert sorted([*train, *test]) == sorted(rows)
    assert not set.union(*map(keys, train)) & set.union(*map(keys, test))
    assert 0.2 * len(rows) <= len(test) <= 0.3 * len(rows)
    assert (train, test) == divided(rows, 0.3, seed)


def test_other_seeds_set_other_rows_apart() -> None:
    assert divided(ROWS, 0.3, 0) != divided(ROWS, 0.3, 1)


def test_first_texts_search_among_all_second_texts() -> None:
    train = [Triplet("a", "b", "c"), Triplet("d", "e", "c")]
    task = SetApart(Triplet, train, [Triplet("f", "g", "h")], {}).task()
    assert (list(task.queries), list(task.documents)) == (["f"], ["g", "h", "b", "c", "e"])
    assert list(task.grades) == [{0: 1}]


def recipe(**options: object) -> Recipe:
    stage = {"method": "pairs", "test_share": 0.2}
    table = {"stages": [stage], "dev": "none", **options}
    return Recipe.from_table(table)


def test_rows_that_can_not_be_divided_are_refused() -> None:
    with pytest.raises(InputError, match="20 rows, all joined by common texts"):
        read_set_apart(recipe(), [Pair(f"text {row}", "the answer") for row in range(20)])
    with pytest.raises(InputError, match="largest group of rows with common texts has 10"):
        read_set_apart(recipe(), [Pair(f"text {row}", f"answer {row % 2}") for row in range(20)])
    one_score = [ScoredPair(f"text {row}", f"other {row}", 1.0) for row in range(20)]
    scored = recipe(stages=[{"method": "cosent", "test_share": 0.2}])
    apart = read_set_apart(scored, one_score)
    assert apart is not None
    with pytest.raises(InputError, match="the rows set apart have one score"):
        apart.task()


@pytest.mark.parametrize("count", [3, 20])
def test_a_share_of_almost_all_rows_leaves_rows_to_train_on(count: int) -> None:
    rows = [Pair(f"text {row}", f"answer {row}") for row in range(count)]
    train, test = divided(rows, 0.99, 0)
    assert (len(train), len(test)) == (1, count - 1)


def test_one_stage_alone_sets_pairs_apart() -> None:
    stages = [{"method": "pairs", "test_share": 0.2}, {"method": "pairs"}]
    with pytest.raises(InputError, match="the run has 2 stages"):
        read_set_apart(recipe(stages=stages), ROWS)
    assert read_set_apart(recipe(stages=[{"method": "pairs"}]), ROWS) is None


def faq(path: Path) -> str:
    """A table of 60 questions about words, of which each answer answers two."""
    lines = ["question,answer"]
    for row in range(60):
        words = " ".join(WORDS[place % 22] for place in range(row, row + 5))
        lines.append(f"{words} {WORDS[row // 3]},the {WORDS[row % 20]} is {WORDS[row // 20]}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_a_run_is_judged_by_the_rows_that_it_sets_apart(train: Train, tmp_path: Path) -> None:
    pairs = {
        "sources": faq(tmp_path / "faq.csv"),
        "method": "pairs",
        "columns": {"sentence1": "question", "sentence2": "answer"},
        "test_share": 0.2,
        "dev": "none",
        "tasks": None,
    }
    result = train(**pairs)
    assert result.evaluation is not None
    (task,) = result.evaluation.after.tasks
    entry = json.loads((result.folder / "data.json").read_text())["stage 1"]
    assert task.name == NAME
    assert entry["rows"] + entry["set_apart"] == 60
    assert 0 < entry["set_apart"] <= 12
    assert result.evaluation.differences[0].score == NAME
    assert [control.name for control in result.evaluation.after.controls] == ["BM25"]
    assert NAME in result.evaluation.own_tasks
    log = (result.folder / "train.log").read_text("utf-8")
    assert f"{entry['rows']} rows to train on, {entry['set_apart']} set apart" in log
    assert f"search among {task.documents} texts" in log


@pytest.mark.parametrize(
    ("method", "header"),
    [
        ("finetune-sentence", "sentence,label"),
        ("finetune-pair", "sentence1,sentence2,label"),
    ],
)
def test_labels_are_judged_by_a_classifier_on_the_vectors(
    method: str, header: str, train: Train, tmp_path: Path
) -> None:
    path = tmp_path / "labels.csv"
    lines = [header]
    for row in range(60):
        texts = [" ".join(WORDS[(row + place) % 22] for place in range(4)) + f" {WORDS[row % 19]}"]
        if "sentence2" in header:
            texts.append(f"the {WORDS[row % 20]} is {WORDS[row // 20]} {WORDS[row % 7]}")
        lines.append(",".join([*texts, "ab"[row % 2]]))
    path.write_text("\n".join(lines) + "\n")
    result = train(
        sources=str(path),
        method=method,
        classes=["a", "b"],
        dev_data=[str(path)],
        test_share=0.3,
        dev="none",
        tasks=None,
    )
    assert result.evaluation is not None
    (task,) = result.evaluation.after.tasks
    assert task.name == NAME
    assert task.kind == "transfer"
    assert {control.name for control in result.evaluation.after.controls} == {
        "largest class",
        "bag of words",
    }
    assert NAME in result.evaluation.own_tasks


PREDICTED = [("finetune-sentence", True), ("finetune-pair", True), ("finetune-pair", False)]
"""Methods that need rows to choose the step, and whether they predict labels or scores."""


def to_predict(method: str, labelled: bool) -> tuple[dict[str, object], list[Row]]:
    """The options of a stage, and sixty rows."""
    rows: list[Row] = []
    for row in range(60):
        text = " ".join(WORDS[(row + place) % 22] for place in range(4)) + f" {WORDS[row % 19]}"
        other = f"the {WORDS[row % 20]} is {WORDS[row // 20]} {WORDS[row % 7]}"
        if not labelled:
            rows.append(ScoredPair(text, other, row % 5))
        elif method == "finetune-pair":
            rows.append(LabelledPair(text, other, "xy"[row % 2]))
        else:
            rows.append(LabelledSentence(text, "xy"[row % 2]))
    options: dict[str, object] = {"method": method, "test_share": 0.25, "classes": ["x", "y"]}
    if not labelled:
        options |= {"classes": [], "metrics": ["spearman"]}
    return options, rows


@pytest.mark.parametrize(("method", "labelled"), PREDICTED)
def test_rows_that_choose_the_step_are_a_third_part(method: str, labelled: bool) -> None:
    """No text of them stands at a row that is trained on, or set apart."""
    options, rows = to_predict(method, labelled)
    apart = read_set_apart(recipe(stages=[options]), rows)
    assert apart is not None
    parts = [apart.train, apart.dev, apart.test]
    assert all(parts)
    assert sorted(row for part in parts for row in part) == sorted(rows)
    of_parts = []
    for part in parts:
        texts = [row[: len(text_fields(type(row)))] for row in part]
        of_parts.append(set.union(*map(keys, texts)))
    for one, other in combinations(of_parts, 2):
        assert not one & other
    given = read_set_apart(recipe(stages=[{**options, "dev_data": ["stsb-open"]}]), rows)
    assert given is not None
    assert (given.dev, given.test) == ((), apart.test)


@pytest.mark.parametrize(("method", "labelled"), PREDICTED)
def test_a_run_chooses_its_step_by_rows_of_its_own(
    method: str, labelled: bool, train: Train
) -> None:
    options, rows = to_predict(method, labelled)
    result = train(sources=(), rows=rows, dev="none", tasks=None, **options)
    apart = read_set_apart(recipe(stages=[options]), rows)
    assert apart is not None
    log = (result.folder / "train.log").read_text("utf-8")
    counts = f"{len(apart.train)} rows to train on, {len(apart.dev)} to choose the step"
    assert f"{counts}, {len(apart.test)} set apart" in log
    assert metrics(result.folder, "dev")
    with np.load(result.folder / "predictions.npz") as arrays:
        assert len(arrays["dev"]) == len(apart.dev)


def test_a_resumed_run_sets_the_same_rows_apart(
    train: Train, tmp_path: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored = {"sources": str(pairs), "method": "cosent", "test_share": 0.3, "tasks": None}
    whole = train("whole", **scored)
    with monkeypatch.context() as patch:
        patch.setattr("isotune.training.run.compare_with_start", killed)
        with pytest.raises(Killed):
            train("stopped", **scored)
    resumed = resume(tmp_path / "stopped")
    assert whole.evaluation is not None
    assert resumed.evaluation is not None
    assert resumed.evaluation.after.scores() == whole.evaluation.after.scores()
    assert resumed.evaluation.after.controls[0].name == "common words"

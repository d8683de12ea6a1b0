"""Choosing without labels, judged on run folders made up here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from isotune.lab.studies.step_criteria import choices, courses, judge

FIRST = "view_retrieval"


def run(
    folder: Path, dev: Sequence[float], criterion: Sequence[float], stage: int = 1, metric: str = "spearman"
) -> Path:
    """A run evaluated every 10 steps; all criteria but the first, and the space, go up with the steps."""
    folder.mkdir(exist_ok=True)
    lines = []
    for i, (score, value) in enumerate(zip(dev, criterion, strict=True)):
        at = {"stage": stage, "step": 10 * i + 1000 * (stage - 1)}
        space = {"effective_rank": float(i), "mean_cosine": 0.5}
        lines.append({"kind": "space", **at, **space})
        lines.append({"kind": "unlabelled", **at, FIRST: value, "neighbour_rank": float(i)})
        lines.append({"kind": "dev", **at, "metric": metric, "score": score, "best": True})
    lines.append({"kind": "warning", "step": 0, "message": "one"})
    with (folder / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return folder


def test_regret_is_the_dev_score_that_the_criterion_loses(tmp_path: Path) -> None:
    (course,) = courses(run(tmp_path / "a", [0.5, 0.7, 0.8, 0.6, 0.4], [1, 3, 2, 0.5, 0]))
    kept = choices(course)
    assert kept[FIRST].step == 10
    assert kept[FIRST].dev == 0.7
    assert kept[FIRST].value == 3
    assert kept[FIRST].regret == pytest.approx(0.1)
    assert kept[FIRST].correlation == pytest.approx(0.8)  # ranks 2 4 5 3 1 and 3 5 4 2 1: 1 - 6 x 4 / (5 x 24)
    assert kept["effective_rank"].step == kept["the last"].step == 40
    assert kept["effective_rank"].regret == pytest.approx(0.4)
    assert kept["mean_cosine"].correlation is None
    assert kept["the start"].regret == pytest.approx(0.3)
    assert kept["half"].step == 20
    assert kept["half"].regret == 0


def test_each_stage_with_a_correlation_is_a_course(tmp_path: Path) -> None:
    folder = run(tmp_path / "a", [0.5, 0.7], [1, 2])
    run(folder, [0.7, 0.6, 0.5], [3, 2, 1], stage=2)
    run(folder, [0.1, 0.9], [3, 2], stage=3, metric="accuracy")
    first, second = courses(folder)
    assert list(first.steps) == [0, 10]
    assert list(second.steps) == [1000, 1010, 1020]
    assert choices(second)[FIRST].regret == 0


def test_a_criterion_is_judged_over_lines_and_between_runs(tmp_path: Path) -> None:
    (a,), (b,), (c,) = (
        courses(run(tmp_path / name, dev, criterion))
        for name, dev, criterion in (
            ("a", [0.2, 0.4], [1.0, 2.0]),
            ("b", [0.3, 0.2], [2.0, 3.0]),
            ("c", [0.2, 0.5], [9.0, 8.0]),
        )
    )
    judged = judge({"one": [a, b], "two": [c], "as it is": []})
    table = {criterion.by: criterion for criterion in judged}
    assert table[FIRST].regrets == {"one": pytest.approx(0.05), "two": pytest.approx(0.3)}
    assert table[FIRST].regret == pytest.approx(0.4 / 3)
    assert table[FIRST].worst == pytest.approx(0.3)
    assert table[FIRST].correlation == pytest.approx(-1 / 3)
    assert table[FIRST].between == pytest.approx(-0.866, abs=1e-3)  # of 2 3 9 with 0.4 0.2 0.2
    assert table["the last"].regret == pytest.approx(0.1 / 3)
    assert table["the last"].between is None
    assert judged[0].regret == min(criterion.regret for criterion in judged)


def test_runs_without_a_course_are_left_out(tmp_path: Path) -> None:
    assert courses(tmp_path) == []
    assert courses(run(tmp_path / "a", [0.1, 0.9], [3, 2], metric="accuracy")) == []
    assert judge({"one": []}) == []

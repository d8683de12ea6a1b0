"""What a study reads, and whether that is on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from isotune.lab.studies import Study
from isotune.lab.studies.plan import needs, plan_runs

TUNED = {"name": "tuned", "method": "simcse", "data": ["none.txt"], "options": {"dev": "none", "steps": 1}}


def study(*arms: dict[str, Any], **more: Any) -> Study:
    return Study.from_table({"title": "t", "model": "some/model", "scores": ["dev"], "arms": list(arms), **more})


def test_runs_models_and_data() -> None:
    arms = {"name": "as it is", "options": {"pooling": "cls"}}, TUNED
    needed = needs(study(*arms, seeds=[0, 1, 2], tasks=["stsb-open", "geometry:none.tsv"]))
    assert needed.runs == 4
    assert needed.models == {"some/model": False}
    assert needed.data == {"stsb-open:test": True, "none.tsv": False, "none.txt": False}
    assert needed.data_here == "no"
    assert needs(study(*arms), "other/model").models == {"other/model": False}


def test_data_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "model").mkdir()
    here = {**TUNED, "data": [str(tmp_path / "*.txt")]}
    needed = needs(study(here, tasks=["stsb-open"]), str(tmp_path / "model"))
    assert needed.data_here == "published"
    assert needed.models == {str(tmp_path / "model"): True}


@pytest.mark.parametrize(
    ("arm", "data", "dev"),
    [
        ({"method": "consert", "data": ["x"], "options": {"dev": "stsb:dev"}}, ("x",), ("stsb:dev",)),
        ({"method": "consert", "data": ["x"], "options": {"dev": "none"}}, ("x",), ()),
        (
            {"method": "multitask"},
            ("sst5:train", "quora-rest:train", "minbert-sts:train"),
            ("sst5:dev", "minbert-quora:dev", "minbert-sts:dev"),
        ),
        ({}, (), ()),
    ],
)
def test_what_a_run_reads(arm: dict[str, Any], data: tuple[str, ...], dev: tuple[str, ...]) -> None:
    (run,) = plan_runs(study({"name": "a", **arm}))
    assert (run.inputs.data, run.inputs.dev, run.inputs.models) == (data, dev, ())


def test_translation_models_are_needed() -> None:
    (run,) = plan_runs(study({"name": "a", "recipe": "back-translation"}))
    assert len(run.inputs.models) == 2
    assert list(needs(study({"name": "a", "recipe": "back-translation"})).models) == ["some/model", *run.inputs.models]

"""The papers' tables as commands: other models and options, and published beside measured."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isotune.data import DATASETS
from isotune.lab.studies import Study, read_study
from isotune.lab.studies.lines import MadeRun
from isotune.lab.studies.page import Results, write_page, write_paper_page
from isotune.lab.studies.plan import changed_study, departures, needs, plan_runs
from isotune.lab.studies.run_study import run_study


def results(study: Study, **values: dict[str, float]) -> Results:
    of_all: dict[str, Any] = {"model": "bert-tiny", "seed": 0, "cell": {}}
    runs = [
        MadeRun(**of_all, arm=arm, run=arm, problem="" if scores else "failed", values=scores)
        for arm, scores in values.items()
    ]
    return Results(
        name="t",
        study=study,
        model="",
        runs=tuple(runs),
        statistics={},
        comparisons=(),
        analyses=(),
        facts={},
    )


def test_given_options_replace_those_of_arms() -> None:
    study = read_study("self-guided/table5")
    changed = changed_study(study, (5,), {"temperature": 0.05, "steps": 3})
    assert changed.seeds == (5,)
    assert changed.options == {"temperature": 0.05, "steps": 3}
    assert not any("temperature" in arm.options for arm in changed.arms)
    assert plan_runs(
        changed_study(read_study("consert/table3"), (), {"steps": 3})
    )  # some of its arms have epochs
    said = departures(changed, study, "", {"temperature": 0.05, "steps": 3})
    assert said == [
        "Options that differ from the study's: temperature = 0.05, steps = 3.",
        "Seeds 5, not 1, 2, 3, 4, 1234, 2345, 3456, 7890.",
    ]


def test_with_stand_ins_tasks_read_other_data() -> None:
    study = read_study("consert/table2")
    changed = changed_study(study, (), {}, with_stand_ins=True)
    assert study.tasks == ("senteval-sts",)
    assert (changed.tasks, changed.judged, changed.stand_ins) == (("sts",), "sts", True)
    assert changed.published[0].scores["sts12"] == study.published[0].scores["senteval-sts12"]
    assert departures(changed, study, "", {}) == ["Scored on sts, not senteval-sts."]


def test_with_stand_ins_a_study_needs_other_data() -> None:
    changed = changed_study(read_study("consert/table2"), (), {}, with_stand_ins=True)
    sources, _ = needs(changed)
    assert sources[-2:] == ["sts-unlabelled", "stsb:dev"]


def test_nothing_stands_in_for_sentevals_classifications() -> None:
    changed = changed_study(read_study("self-guided/table4"), (), {}, with_stand_ins=True)
    assert changed.tasks == ("senteval-50",)


def test_with_stand_ins_scores_have_the_names_of_other_data() -> None:
    changed = changed_study(read_study("bert-cf/table7"), (), {}, with_stand_ins=True)
    assert changed.scores[0] == "geometry:qqp-sample:train-alignment"
    timed = changed_study(read_study("self-guided/table6"), (), {}, with_stand_ins=True)
    assert timed.scores[1] == "encoding:stsb"


def test_another_model_is_told() -> None:
    study, base_only = read_study("clsr/table3"), read_study("consert/table4")
    (said,) = departures(study, study, "bert-tiny", {})
    assert said.startswith(
        "The model is bert-tiny, not the study's google-bert/bert-base-uncased or google-bert/"
    )
    assert (
        departures(study, study, "google-bert/bert-base-uncased", {}) != []
    )  # for some are BERT-large
    assert departures(base_only, base_only, "google-bert/bert-base-uncased", {}) == []
    assert departures(study, study, "", {}) == []


def test_published_stands_below_measured(tmp_path: Path) -> None:
    arms = [{"name": name, "method": "simcse", "data": ["x"]} for name in "ab"]
    published = [{"arm": "a", "scores": {"dev": 70.5}, "deviation": {"dev": 0.25}}]
    published.append({"arm": "another paper's", "scores": {"dev": 60}})
    table = {"title": "t", "paper": "p", "scores": ["dev"], "arms": arms, "published": published}
    study = Study.from_table(table)
    made = results(study, a={"dev": 0.5}, b={})
    again = made.runs[0].model_copy(update={"seed": 1, "values": {"dev": 0.52}})
    left = made.runs[0].model_copy(update={"arm": "c", "is_made": False, "values": {}})
    (tmp_path / "p" / "t").mkdir(parents=True)
    made.model_copy(update={"runs": (*made.runs, again, left)}).write(tmp_path / "p" / "t")
    page = write_paper_page(tmp_path, ["p/t"]).read_text()
    rows = re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td>', page)
    assert rows == [
        ("a", "51.00 ± 1.41"),
        ("a, published", "70.50 ± 0.25"),
        ("b: failed", ""),
        ("c: not made yet", ""),
        ("another paper&#39;s, published", "60.00"),
    ]


@pytest.mark.usefixtures("real_data")
def test_a_table_of_data_counts_the_rows_that_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = {"test": replace(DATASETS["sts13"].splits["test"], row_count=7)}
    monkeypatch.setattr(
        "isotune.lab.studies.run_study.DATASETS",
        {**DATASETS, "sts13": replace(DATASETS["sts13"], splits=splits)},
    )
    outcome = run_study("consert/table1", tmp_path, quiet=True)
    assert outcome.failed == 0
    made = Results.read(tmp_path / "study.json")
    lines, scores = made.lines[:7], made.study.scores
    assert [lines[0].measured(made.study, score) for score in scores] == [
        "0",
        "0",
        "3,108",
        "6,216",
    ]
    assert all(
        line.measured(made.study, score) == line.printed(made.study, score)
        for line in lines
        for score in scores
    )


def test_a_page_shows_what_is_made_and_what_is_left(tmp_path: Path) -> None:
    arms = [{"name": name, "method": "simcse", "data": ["x"]} for name in "ab"]
    study = Study.from_table({"title": "t", "scores": ["dev"], "arms": arms})
    made = results(study, a={"dev": 0.5}, b={"dev": 0.6})
    left = made.runs[1].model_copy(update={"is_made": False, "values": {}})
    made.model_copy(update={"runs": (made.runs[0], left)}).write(tmp_path)
    page = write_page(tmp_path).read_text()
    assert "<li>1 of 2 runs is not made yet; the same command goes on.</li>" in page
    assert "<td>not made yet</td>" in page
    assert re.search(r"<td>(<strong>)?50.00", page)

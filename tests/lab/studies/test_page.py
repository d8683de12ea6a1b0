"""Tables, figures and the page, of numbers that are made up."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from pyarrow import parquet

from isotune.errors import InputError
from isotune.lab.studies import Study
from isotune.lab.studies.comparison import compare
from isotune.lab.studies.figures import chart
from isotune.lab.studies.lines import MadeRun, table_lines
from isotune.lab.studies.page import write_page
from isotune.lab.studies.plan import plan_runs
from isotune.lab.studies.results import Results
from isotune.report.chart import Band, Bars, Series

STUDY = Study.from_table(
    {
        "title": "Batches <&> augmentations",
        "source": "A paper, Table 4",
        "model": "google-bert/bert-base-uncased",
        "seeds": [0, 1, 2],
        "tasks": ["sts"],
        "scores": ["sts", "kept_step", "uniformity"],
        "grid": {"batch_size": [16, 64], "augmentations.0": ["none", "shuffle"]},
        "arms": [
            {"name": "BERT", "options": {"pooling": "mean"}},
            {"name": "ConSERT", "recipe": "consert-unsup-base"},
            {"name": "SimCSE", "recipe": "simcse-unsup", "data": ["stsb:train"], "grid": {"batch_size": [16, 64]}},
        ],
        "published": [
            {"arm": "BERT", "scores": {"sts": 53.86}},
            {"arm": "SBERT", "scores": {"sts": 74.19}, "note": "For reference."},
            {"arm": "SimCSE", "at": {"batch_size": 64}, "scores": {"sts": 63.86}, "deviation": {"sts": 0.5}},
            {
                "arm": "ConSERT",
                "at": {"batch_size": 16, "augmentations.0": "shuffle"},
                "scores": {"sts": 70.5},
            },
        ],
        "figures": [
            {"kind": "curve", "x": "batch_size", "y": "sts", "log": True},
            {"kind": "heatmap", "rows": "augmentations.0", "columns": "batch_size", "y": "sts"},
            {"kind": "bars", "y": "sts"},
        ],
    }
)


@pytest.fixture
def results() -> Results:
    """Scores of 50 to 60, but for one cell that failed and one that is yet to be made."""
    generator, made = np.random.default_rng(0), []
    for number, run in enumerate(plan_runs(STUDY)):
        values = {
            "sts": round(0.5 + 0.1 * float(generator.random()), 4),
            "kept_step": float(generator.integers(1000, 2000)),
            "uniformity": -1.2345,
        }
        failed = run.arm == "SimCSE" and run.cell["batch_size"] == 16
        waiting = run.arm == "ConSERT" and run.cell == {"batch_size": 64, "augmentations.0": "shuffle"}
        made.append(
            MadeRun(
                arm=run.arm,
                model="bert-tiny",
                seed=run.seed,
                cell=dict(run.cell),
                run=f"run{number}",
                problem="the disk <is> full" if failed else "",
                values={} if failed or waiting else values,
            )
        )
    return Results(
        name="consert/fake",
        study=STUDY,
        model="bert-tiny",
        runs=tuple(made),
        statistics={},
        comparisons=compare(STUDY, table_lines(STUDY, made), [], lambda *_: {}),
        analyses=(),
        facts={"isotune": "0.1.0", "cores": 2},
    )


def test_results_are_read_as_they_were_written(results: Results, tmp_path: Path) -> None:
    results.write(tmp_path)
    assert Results.read(tmp_path) == results


def test_option_values_are_read_as_they_were_written(results: Results, tmp_path: Path) -> None:
    grid = {"layers": [[0, -1], [-1]], "projection": [True, False], "temperature": [1, 0.05]}
    arm = {"name": "a", "method": "simcse", "options": {"max_gradient_norm": float("inf")}}
    study = Study.from_table({"title": "x", "scores": ["dev"], "grid": grid, "arms": [arm]})
    cell = {"layers": (0, -1), "projection": True, "temperature": 1}
    run = MadeRun(arm="a", model="bert-tiny", seed=0, cell=cell, run="key", values={"dev": 0.5})
    written = results.model_copy(update={"study": study, "runs": (run,), "comparisons": ()})
    written.write(tmp_path)
    assert Results.read(tmp_path) == written
    (row,) = parquet.read_table(tmp_path / "study.parquet").to_pylist()
    assert (row["layers"], row["projection"], row["temperature"]) == ("0 and -1", "yes", 1.0)


def test_a_folder_without_a_study_is_refused(results: Results, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="its study can't be read"):
        Results.read(tmp_path)
    (tmp_path / "study.json").write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"study\.json: Invalid JSON"):
        Results.read(tmp_path)
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(InputError, match=r"study\.json: name: Field required; study: Field required"):
        Results.read(tmp_path)


def test_lines_of_runs_come_before_published_ones(results: Results) -> None:
    lines = table_lines(STUDY, results.runs)
    assert [line.title for line in lines] == [
        "BERT",
        *(f"ConSERT, batch size {size}, augmentations 1 {name}" for size in (16, 64) for name in ("none", "shuffle")),
        "SimCSE, batch size 16",
        "SimCSE, batch size 64",
        "SBERT",
    ]
    assert [line.published is not None for line in lines] == [True, False, True, False, False, False, True, True]
    summary = lines[1].summary("sts")
    assert summary is not None
    values = [run.values["sts"] for run in results.runs[1:4]]
    assert (summary.mean, summary.deviation, summary.n) == (pytest.approx(np.mean(values)), np.std(values, ddof=1), 3)
    assert lines[4].waiting == 3
    assert lines[5].problems == ["the disk <is> full"] * 3


class Texts(HTMLParser):
    """The text of a page, and its images and links."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.links = "", [""]
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for key, value in attrs if key in ("src", "href")]


def test_the_page_shows_published_beside_measured(results: Results, tmp_path: Path) -> None:
    results.write(tmp_path)
    raw = write_page(tmp_path).read_text()
    page = Texts(raw)
    text = re.sub(r"\s+", " ", page.text)
    summary = table_lines(STUDY, results.runs)[6].summary("sts")
    assert summary is not None
    assert summary.deviation is not None
    assert f"SimCSE, batch size 64 {100 * summary.mean:.2f} ± {100 * summary.deviation:.2f} 63.86 ± 0.50" in text
    assert "SBERT 74.19" in text
    assert "SBERT, published: For reference." in text
    assert "Measured on bert-tiny; the published numbers are of google-bert/bert-base-uncased." in text
    assert "SimCSE, batch size 16: the disk <is> full" in text
    assert "3 of 19 runs have not been made yet" in text
    assert "-1.234 ± 0.000" in text or "-1.235 ± 0.000" in text
    assert "at 3 seeds" in text
    assert "<is>" not in raw
    assert "Batches <&>" not in raw
    assert not [link for link in page.links if link and not link.startswith("#")]
    for number in (1, 2, 3):
        picture = imread(tmp_path / "figures" / f"figure-{number}.png")
        assert min(picture.shape[:2]) > 500
        assert picture[..., :3].std() > 0.05
        assert raw.count(f'id="figure-{number}"') == 1


def test_a_curve_has_bands_level_lines_and_published_values(results: Results) -> None:
    lines = table_lines(STUDY, results.runs)
    (panel,) = chart(STUDY, STUDY.figures[0], lines).panels
    series = {mark.name: mark for mark in panel.marks if isinstance(mark, Series) and mark.name}
    summary = lines[0].summary("sts")
    assert summary is not None
    assert list(series["BERT"].x) == [16.0, 64.0]
    assert list(series["BERT"].y) == pytest.approx([100 * summary.mean] * 2)
    assert list(series["ConSERT, augmentations 1 shuffle"].x) == [16.0]  # the other is yet to be made
    assert list(series["SBERT, published"].y) == [74.19, 74.19]
    bands = [mark for mark in panel.marks if isinstance(mark, Band)]
    none = lines[1].summary("sts")
    assert none is not None
    assert none.deviation is not None
    assert bands[0].high[0] - bands[0].low[0] == pytest.approx(200 * none.deviation)
    assert panel.points == [16.0, 64.0]


def test_a_logarithmic_axis_needs_numbers() -> None:
    arm = {"name": "SimCSE", "method": "simcse", "data": ["x"], "options": {"projection": False}}
    figure = {"kind": "curve", "x": "pooling", "y": "sts", "log": True}
    table = {"title": "t", "tasks": ["sts"], "scores": ["sts"], "arms": [arm], "figures": [figure]}
    study = Study.from_table({**table, "grid": {"pooling": ["cls", "mean"]}})
    made = [
        MadeRun(arm="SimCSE", model="bert-tiny", seed=0, cell={"pooling": mode}, run=mode, values={"sts": 0.5})
        for mode in ("cls", "mean")
    ]
    (panel,) = chart(study, study.figures[0], table_lines(study, made)).panels
    assert (panel.log_x, panel.x_names) == (False, ["cls", "mean"])
    (series,) = panel.marks
    assert series.hover == ["SimCSE, pooling cls: 50.00", "SimCSE, pooling mean: 50.00"]


def test_the_published_models_are_those_of_the_arms(results: Results, tmp_path: Path) -> None:
    arms = tuple(arm.model_copy(update={"model": "some/model"}) for arm in STUDY.arms)
    results.model_copy(update={"study": STUDY.model_copy(update={"arms": arms})}).write(tmp_path)
    assert "the published numbers are of some/model." in write_page(tmp_path).read_text()


def test_a_heatmap_has_a_panel_of_published_values(results: Results) -> None:
    panels = chart(STUDY, STUDY.figures[1], table_lines(STUDY, results.runs)).panels
    assert [panel.title for panel in panels] == ["ConSERT", "ConSERT, published"]
    labels = [[mark.labels[0] for mark in panel.marks if isinstance(mark, Series)] for panel in panels]
    assert len(labels[0]) == 3
    assert labels[1] == ["70.50"]
    assert panels[0].y_names == ["none", "shuffle"]
    (place,) = [(mark.x[0], mark.y[0]) for mark in panels[1].marks if isinstance(mark, Series)]
    assert place == (0, 1)


def test_bars_are_one_below_the_other(results: Results) -> None:
    lines = table_lines(STUDY, results.runs)
    (panel,) = chart(STUDY, STUDY.figures[2], lines).panels
    widths = [mark.width[0] for mark in panel.marks if isinstance(mark, Bars)]
    summary = lines[0].summary("sts")
    assert summary is not None
    assert widths[0] == pytest.approx(100 * summary.mean)
    assert len(widths) == 5  # the cells that were made
    assert len(panel.y_names) == 6  # without the cells that have neither a value nor a published one
    assert panel.y_names[-1] == "SBERT"


def test_an_analysis_is_shown_with_its_published_values(results: Results, tmp_path: Path) -> None:
    folder = tmp_path / "analyses"
    folder.mkdir()
    table: list[dict[str, Any]] = [{"encoder": "BERT", "pooling": "cls", "layer": 2, "spearman": 0.25}]
    content = {"title": "STS by layer", "findings": ["BERT: all the same."], "table": table}
    (folder / "layers.json").write_text(json.dumps(content))
    (folder / "layers.png").write_bytes(b"png")
    published = {"arm": "BERT", "analysis": "layers", "at": {"layer": 2}, "scores": {"spearman": 16.71}}
    study = Study.from_table(
        {"title": "x", "scores": ["sts"], "analyses": ["layers"], "published": [published], "arms": [{"name": "BERT"}]}
    )
    shown = results.model_copy(update={"study": study, "runs": (), "comparisons": (), "analyses": ("layers",)})
    shown.write(tmp_path)
    page = Texts(write_page(tmp_path).read_text())
    text = re.sub(r"\s+", " ", page.text)
    assert "BERT: all the same." in text
    assert "BERT, layer 2 spearman 25 16.71" in text
    assert any(link.startswith("data:image/png;base64,") for link in page.links)
    for damaged in ("{", "{}", "[]"):
        (folder / "layers.json").write_text(damaged)
        with pytest.raises(InputError, match="the analysis layers can't be read"):
            write_page(tmp_path)

"""Tables, figures and the page, of numbers that are made up."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.image import imread

from isotune.errors import InputError
from isotune.lab.studies import Study
from isotune.lab.studies.comparison import compare
from isotune.lab.studies.figures import draw, matrices
from isotune.lab.studies.lines import Line, MadeRun, table_lines
from isotune.lab.studies.page import Results, write_page
from isotune.lab.studies.plan import plan_runs
from isotune.lab.studies.study import Figure
from tests.report.conftest import Page

STUDY = Study.from_table(
    {
        "title": "Batches <&> augmentations",
        "source": "A paper, Table 4",
        "model": "google-bert/bert-base-uncased",
        "seeds": [0, 1, 2],
        "tasks": ["sts"],
        "scores": ["sts", "kept_step", "uniformity"],
        "grid": {"batch_size": [16, 64], "augmentations": [["none", "none"], ["shuffle", "none"]]},
        "arms": [
            {"name": "BERT", "options": {"pooling": "mean"}},
            {"name": "ConSERT", "recipe": "consert-unsup-base"},
            {
                "name": "SimCSE",
                "recipe": "simcse-unsup",
                "data": ["stsb:train"],
                "grid": {"batch_size": [16, 64]},
            },
        ],
        "published": [
            {"arm": "BERT", "scores": {"sts": 53.86}, "note": "For reference."},
            {"arm": "SBERT", "scores": {"sts": 74.19}, "note": "For reference."},
            {
                "arm": "SimCSE",
                "at": {"batch_size": 64},
                "scores": {"sts": 63.86},
                "deviation": {"sts": 0.5},
            },
            {
                "arm": "ConSERT",
                "at": {"batch_size": 16, "augmentations": ["shuffle", "none"]},
                "scores": {"sts": 70.5},
            },
        ],
        "figures": [
            {"kind": "curve", "x": "batch_size", "y": "sts", "log": True},
            {"kind": "bars", "y": "sts"},
            {"kind": "matrix", "x": "augmentations", "y": "sts"},
        ],
    }
)


@pytest.fixture
def results() -> Results:
    """Scores of 50 to 60, but for two cells that failed."""
    generator, made = np.random.default_rng(0), []
    for number, run in enumerate(plan_runs(STUDY)):
        failed = (run.arm, dict(run.cell)) in (
            ("SimCSE", {"batch_size": 16}),
            ("ConSERT", {"batch_size": 64, "augmentations": ("shuffle", "none")}),
        )
        sts = round(0.5 + 0.1 * float(generator.random()), 4)
        values = {} if failed else {"sts": sts, "kept_step": 1500.0 + number, "uniformity": -1.2345}
        place: dict[str, Any] = {
            "arm": run.arm,
            "model": "bert-tiny",
            "seed": run.seed,
            "cell": dict(run.cell),
        }
        made.append(
            MadeRun(
                **place, run=f"run{number}", problem="the disk <is> full" * failed, values=values
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
    grid = {"layers": [[0, -1], [-1]], "projection": [True, False], "temperature": [1, 0.05]}
    arm = {"name": "a", "method": "simcse", "options": {"max_gradient_norm": float("inf")}}
    study = Study.from_table({"title": "x", "scores": ["dev"], "grid": grid, "arms": [arm]})
    cell = {"layers": (0, -1), "projection": True, "temperature": 1}
    run = MadeRun(arm="a", model="bert-tiny", seed=0, cell=cell, run="key", values={"dev": 0.5})
    for written in (results, results.model_copy(update={"study": study, "runs": (run,)})):
        written.write(tmp_path)
        assert Results.read(tmp_path / "study.json") == written


def test_a_folder_without_a_study_is_refused(results: Results, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"study\.json: it can't be read"):
        Results.read(tmp_path / "study.json")
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(
        InputError, match=r"study\.json: name: Field required; study: Field required"
    ):
        Results.read(tmp_path / "study.json")


def test_lines_of_runs_come_before_published_ones(results: Results) -> None:
    lines = table_lines(STUDY, results.runs)
    cells = [
        f"batch size {size}, augmentations {name} and none"
        for size in (16, 64)
        for name in ("none", "shuffle")
    ]
    simcse = ["SimCSE, batch size 16", "SimCSE, batch size 64"]
    assert [line.title for line in lines] == [
        "BERT",
        *(f"ConSERT, {cell}" for cell in cells),
        *simcse,
        "SBERT",
    ]
    assert [line.published is not None for line in lines] == [
        True,
        False,
        True,
        False,
        False,
        False,
        True,
        True,
    ]
    summary = lines[1].summary("sts")
    values = [run.values["sts"] for run in results.runs[1:4]]
    assert summary == pytest.approx((np.mean(values), np.std(values, ddof=1)))
    assert Line("x", {}, {"sts": {0: 0.5}}).summary("sts") == (0.5, None)
    assert lines[4].problems == lines[5].problems == ["the disk <is> full"] * 3


def test_the_page_names_what_stands_in_for_published_data(results: Results, tmp_path: Path) -> None:
    study = STUDY.model_copy(update={"paper": ""})
    results.model_copy(update={"study": study, "stand_ins": ("nli-sample:train",)}).write(tmp_path)
    assert (
        "In place of the published data, trained on nli-sample:train."
        in Page(write_page(tmp_path)).text
    )


def links(page: Page) -> list[str]:
    return [
        str(value)
        for _, attributes in page.tags
        for key, value in attributes.items()
        if key in ("src", "href")
    ]


@pytest.fixture
def page(results: Results, tmp_path: Path) -> Page:
    results.write(tmp_path)
    return Page(write_page(tmp_path))


def test_the_page_shows_published_beside_measured(results: Results, page: Page) -> None:
    measured = table_lines(STUDY, results.runs)[6].measured(STUDY, "sts")
    for expected in (
        f"SimCSE, batch size 64 {measured} published 63.86 ± 0.50",
        "SBERT published 74.19",
        "BERT; SBERT, published: For reference.",
        "Measured on bert-tiny; the published numbers are of google-bert/bert-base-uncased.",
        "SimCSE, batch size 16: the disk <is> full",
        "at 3 seeds",
    ):
        assert expected in page.text


def test_the_page_escapes_texts_and_needs_no_other_file(page: Page) -> None:
    assert "<is>" not in page.html
    assert "Batches <&>" not in page.html
    assert not [link for link in links(page) if not link.startswith("#")]


@pytest.mark.parametrize("number", [1, 2])
def test_a_figure_is_in_the_page_and_beside_it(number: int, page: Page, tmp_path: Path) -> None:
    picture = imread(tmp_path / "figures" / f"figure-{number}.png")
    assert min(picture.shape[:2]) > 500
    assert picture[..., :3].std() > 0.05
    assert page.html.count(f'id="figure-{number}"') == 1


def test_the_page_is_the_same_when_it_is_made_again(page: Page, tmp_path: Path) -> None:
    assert write_page(tmp_path).read_text() == page.html


def test_the_headings_of_figures_name_the_best_score(results: Results, page: Page) -> None:
    lines = [line for line in table_lines(STUDY, results.runs) if line.values]
    best = max(float(line.measured(STUDY, "sts")[:5]) for line in lines)
    assert page.html.count(f", {best:.2f}</h2>") == 2


def drawn(study: Study, number: int, lines: list[Line]) -> list[Axes]:
    return draw(study, study.figures[number], lines).axes


def test_a_curve_has_bands_level_lines_and_published_values(results: Results) -> None:
    lines = table_lines(STUDY, results.runs)
    (ax,) = drawn(STUDY, 0, lines)
    series = {
        line.get_label(): line.get_xydata()
        for line in ax.lines
        if np.isfinite(line.get_ydata()).any()
    }
    summary, none = lines[0].summary("sts"), lines[1].summary("sts")
    assert series["BERT"] == pytest.approx(
        np.array([[16, 100 * summary[0]], [64, 100 * summary[0]]])
    )
    assert len(series["ConSERT, augmentations shuffle and none"]) == 1  # the other failed
    assert series["SBERT, published"].tolist() == [[16, 74.19], [64, 74.19]]
    assert "published" in ax.get_legend_handles_labels()[1]
    band = ax.collections[1].get_paths()[0].vertices
    assert np.ptp(band[band[:, 0] == 16][:, 1]) == pytest.approx(200 * none[1])


def test_points_show_a_score_against_another(results: Results) -> None:
    lines = table_lines(STUDY, results.runs)
    figure = Figure(kind="points", x="kept_step", y="sts")
    (ax,) = draw(STUDY, figure, lines).axes
    known = [line for line in lines if line.values]
    points, names = ax.get_legend_handles_labels()
    assert names == [line.title for line in known]
    for point, line in zip(points, known, strict=True):
        (place,) = point.lines[0].get_xydata()
        expected = (line.summary("kept_step")[0], 100 * line.summary("sts")[0])
        assert place == pytest.approx(expected)
    assert draw(STUDY, Figure(kind="points", x="seconds", y="sts"), lines) is None


def test_an_analysis_is_shown_with_its_published_values(results: Results, tmp_path: Path) -> None:
    folder = tmp_path / "analyses"
    folder.mkdir()
    table: list[dict[str, Any]] = [
        {"encoder": "BERT", "pooling": "cls", "layer": 2, "spearman": 0.25}
    ]
    content = {"title": "STS by layer", "findings": ["BERT: all the same."], "table": table}
    (folder / "layers.json").write_text(json.dumps(content))
    (folder / "layers.png").write_bytes(b"png")
    published = {
        "arm": "BERT",
        "analysis": "layers",
        "at": {"layer": 2},
        "scores": {"spearman": 16.71},
    }
    study = Study.from_table(
        {
            "title": "x",
            "scores": ["sts"],
            "analyses": ["layers"],
            "published": [published],
            "arms": [{"name": "BERT"}],
        }
    )
    shown = results.model_copy(
        update={"study": study, "runs": (), "comparisons": (), "analyses": ("layers",)}
    )
    shown.write(tmp_path)
    page = Page(write_page(tmp_path))
    assert "BERT: all the same." in page.text
    assert "BERT, layer 2 spearman 25 16.71" in page.text
    assert any(link.startswith("data:image/png;base64,") for link in links(page))
    (folder / "layers.json").unlink()
    with pytest.raises(InputError, match=r"layers\.json: it can't be read"):
        write_page(tmp_path)


def test_a_matrix_has_the_first_values_as_rows_and_the_second_as_columns(results: Results) -> None:
    grid = {"augmentations": [["none", "none"], ["none", "shuffle"], ["shuffle", "none"]]}
    arms = [{"name": "ConSERT", "recipe": "consert-unsup-base", "grid": grid}]
    figure = Figure(kind="matrix", x="augmentations", y="sts")
    table = {"title": "t", "scores": ["sts"], "arms": arms, "figures": [figure]}
    runs = []
    for number, run in enumerate(plan_runs(Study.from_table(table))):
        values = {"sts": number / 10}
        runs.append(
            results.runs[0].model_copy(update={"cell": dict(run.cell), "seed": 0, "values": values})
        )
    (matrix,) = matrices(figure, table_lines(Study.from_table(table), runs))
    assert matrix.columns == ["none", "shuffle"]
    shown = {}
    for name, lines in matrix.rows.items():
        shown[name] = [line and line.values["sts"][0] for line in lines]
    assert shown == {"none": [0.0, 0.1], "shuffle": [0.2, None]}


def test_a_matrix_needs_pairs() -> None:
    grid = {"batch_size": [16, 64]}
    arms = [{"name": "ConSERT", "recipe": "consert-unsup-base", "grid": grid}]
    figures = [{"kind": "matrix", "x": "batch_size", "y": "sts"}]
    table = {"title": "t", "scores": ["sts"], "arms": arms, "figures": figures}
    with pytest.raises(InputError, match=r"figure 1: batch_size has the value 16, and a matrix"):
        Study.from_table(table)

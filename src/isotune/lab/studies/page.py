"""A study's page: its table with published numbers, the differences, the figures and the analyses.

The page is one file, made of the study's folder alone (study.json, analyses/), so it can be made
again when the runs are gone. Each figure is also written beside it, as PNG.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from isotune.evaluation import AGGREGATIONS, Result
from isotune.files import read_json, write_text
from isotune.lab.studies.comparison import Comparison
from isotune.lab.studies.figures import draw, finding, matrices, title
from isotune.lab.studies.findings import findings
from isotune.lab.studies.lines import Line, MadeRun, highest_line, means_of, table_lines
from isotune.lab.studies.study import Figure, Published, Study
from isotune.lab.studies.wording import heading, is_share, measured_digits, scaled, score_title
from isotune.report import save_png, svg, template

STUDY = "study.json"


class Results(Result):
    """Everything that a study found: study.json."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    name: str
    """The study's name, or its file."""

    study: Study
    """The study itself."""

    model: str
    """The model that replaced every model of the study; "" if none did."""

    stand_ins: tuple[str, ...] = ()
    """The sources that stand in for published data."""

    runs: tuple[MadeRun, ...]
    """The runs, in the order of the study."""

    statistics: dict[str, dict[str, float]]
    """The sizes of each dataset: the number of each size."""

    comparisons: tuple[Comparison, ...]
    """The differences between the table's lines."""

    analyses: tuple[str, ...]
    """The names of the analyses that were made."""

    facts: dict[str, str | int]
    """Versions, machine and time."""

    @property
    def lines(self) -> list[Line]:
        """The lines of the study's table."""
        return table_lines(self.study, self.runs, self.statistics)

    def write(self, folder: Path) -> None:
        """Writes study.json, whole or not at all."""
        write_text(folder / STUDY, self.model_dump_json(indent=2) + "\n")


def write_page(folder: Path) -> Path:
    """Writes study.html and the figures into a study's folder; returns the page's path."""
    results = Results.read(folder / STUDY)
    study = results.study
    lines = results.lines
    figures = list(_figures(folder / "figures", study, lines))
    tables = []
    for figure in study.figures:
        if figure.kind == "matrix":
            tables.append((figure, matrices(figure, lines)))
    analyses = [_analysis(folder / "analyses", study, name) for name in results.analyses]
    text = template("study.html.j2").render(
        results=results,
        study=study,
        aggregation=AGGREGATIONS[study.aggregation],
        lines=lines,
        heading=partial(heading, study),
        is_best=partial(is_best, study, lines),
        best=score_title(study.best),
        grouped=bool(study.rivals),
        judged=score_title(study.judged),
        digits=partial(measured_digits, study),
        findings=findings(study, lines, results.comparisons),
        figures=figures,
        tables=tables,
        analyses=analyses,
    )
    page = folder / "study.html"
    write_text(page, text)
    return page


def write_paper_page(folder: Path, names: Sequence[str]) -> Path:
    """Writes PAPER.html, with the tables of all of a paper's studies; returns the page's path.

    The page is beside the folders of the studies.
    """
    paper, _, _ = names[0].partition("/")
    page = folder / f"{paper}.html"
    results = [Results.read(folder / name / STUDY) for name in names]
    text = template("paper.html.j2").render(paper=paper, made=results, heading=heading)
    write_text(page, text)
    return page


def is_best(study: Study, lines: Sequence[Line], line: Line, score: str) -> bool:
    """Whether a line's mean is above those of all lines that are ranked with it."""
    if not is_share(study, score):
        return False
    group = study.group(line.arm)
    ranked = means_of([each for each in lines if study.group(each.arm) == group], score)
    return len(ranked) > 1 and highest_line(ranked, score) is line


def _figures(folder: Path, study: Study, lines: Sequence[Line]) -> Iterator[tuple[str, str]]:
    """Writes the figures that can be drawn; gives the finding and the SVG element of each.

    A study with arms that names no figure has bars of the score that it judges by.
    """
    figures = study.figures
    if not figures and study.arms:
        figures = (Figure(kind="bars", y=study.judged),)
    drawn = [figure for figure in figures if figure.kind != "matrix"]
    for number, figure in enumerate(drawn, 1):
        drawing = draw(study, figure, lines)
        if drawing:
            name = f"figure-{number}"
            save_png(drawing, folder / f"{name}.png")
            yield finding(study, figure, lines), svg(drawing, name, title(figure))


def _analysis(folder: Path, study: Study, name: str) -> dict[str, Any]:
    """Reads the files of an analysis, for the page.

    To these are added its picture, and what the paper prints beside the measured.
    """
    content = read_json(folder / f"{name}.json")
    picture = b64encode((folder / f"{name}.png").read_bytes()).decode()
    published = []
    for row in study.published:
        if row.analysis == name:
            published.append((row, _measured_beside(study, row, content["table"])))
    return {
        "title": content["title"],
        "findings": content["findings"],
        "picture": f"data:image/png;base64,{picture}",
        "published": published,
    }


def _measured_beside(
    study: Study, published: Published, table: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """The measured values of the row of an analysis's table that published numbers belong to."""
    place = {"encoder": published.arm, **published.at}
    for row in table:
        if place.items() <= row.items():
            scores = [score for score in published.scores if score in row]
            return {score: scaled(study, score, row[score]) for score in scores}
    return {}

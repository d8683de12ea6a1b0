"""A study's page: its table with the published numbers beside it, the differences, the figures and the analyses.

The page is one file, made of the study's folder alone (study.json, analyses/), so it can be made again
when the runs are gone. Each figure is also written beside it, as PNG.
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
from isotune.lab.studies.figures import draw, finding, title
from isotune.lab.studies.lines import Line, MadeRun, table_lines
from isotune.lab.studies.study import Figure, Study
from isotune.lab.studies.wording import heading, is_share, measured_digits, scaled, score_title
from isotune.report import save_png, svg, template

STUDY = "study.json"


class Results(Result):
    """Everything that a study found: study.json."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    name: str  # the study's name, or its file
    study: Study  # the study itself
    model: str  # the model that replaced every model of the study; "" if none did
    stand_ins: tuple[str, ...] = ()  # the sources that stand in for published data
    runs: tuple[MadeRun, ...]  # in the order of the study
    statistics: dict[str, dict[str, float]]  # dataset -> size -> number
    comparisons: tuple[Comparison, ...]  # the differences between the table's lines
    analyses: tuple[str, ...]  # the names of the analyses that were made
    facts: dict[str, str | int]  # versions, machine and time

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
    study, lines = results.study, results.lines
    text = template("study.html.j2").render(
        results=results,
        study=study,
        aggregation=AGGREGATIONS[study.aggregation],
        lines=lines,
        heading=partial(heading, study),
        is_best=partial(_is_best, study, lines),
        best=score_title(study.best),
        grouped=any(arm.against for arm in study.arms),
        is_share=partial(is_share, study),
        judged=score_title(study.judged),
        digits=partial(measured_digits, study),
        figures=list(_figures(folder / "figures", study, lines)),
        analyses=[_analysis(folder / "analyses", study, name) for name in results.analyses],
    )
    page = folder / "study.html"
    write_text(page, text)
    return page


def write_paper_page(folder: Path, names: Sequence[str]) -> Path:
    """Writes PAPER.html beside the folders of a paper's studies, with the tables of all; returns the page's path."""
    page = folder / f"{names[0].partition('/')[0]}.html"
    made = [Results.read(folder / name / STUDY) for name in names]
    write_text(page, template("paper.html.j2").render(paper=page.stem, made=made, heading=heading))
    return page


def _is_best(study: Study, lines: Sequence[Line], line: Line, score: str) -> bool:
    over_seeds = line.summary(score)
    comparable = [
        other
        for other in lines
        if other is not line and study.group(other.arm) == study.group(line.arm)
    ]
    rivals = [rival[0] for other in comparable if (rival := other.summary(score))]
    return (
        is_share(study, score)
        and over_seeds is not None
        and bool(rivals)
        and over_seeds[0] > max(rivals)
    )


def _figures(folder: Path, study: Study, lines: Sequence[Line]) -> Iterator[tuple[str, str]]:
    """Writes the figures that can be drawn; gives the finding and the SVG element of each."""
    for number, figure in enumerate(
        study.figures or [Figure(kind="bars", y=study.judged)] * bool(study.arms), 1
    ):
        if drawn := draw(study, figure, lines):
            save_png(drawn, folder / f"figure-{number}.png")
            yield finding(study, figure, lines), svg(drawn, f"figure-{number}", title(figure))


def _analysis(folder: Path, study: Study, name: str) -> dict[str, Any]:
    """Reads the files of an analysis.

    To these are added its picture, and what the paper prints beside the measured.
    """
    content, picture = (
        read_json(folder / f"{name}.json"),
        b64encode((folder / f"{name}.png").read_bytes()).decode(),
    )
    published = []
    for row in study.published:
        if row.analysis == name:
            place = {"encoder": row.arm, **row.at}
            measured: Mapping[str, Any] = next(
                (each for each in content["table"] if place.items() <= each.items()), {}
            )
            found = {
                score: scaled(study, score, measured[score])
                for score in row.scores
                if score in measured
            }
            published.append((row, found))
    shown = {key: content[key] for key in ("title", "findings")}
    return {**shown, "picture": f"data:image/png;base64,{picture}", "published": published}

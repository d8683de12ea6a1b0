"""A study's page: the table with what is published beside it, what can be said of differences, figures and analyses.

It is made from the study's folder alone (study.json, study.parquet, analyses/), so that it can be made again when the
runs are gone, and is one file. The figures are written beside it as PNG and, where plotly is installed, as pages of
their own.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from isotune.errors import InputError
from isotune.evaluation.tables import AGGREGATIONS
from isotune.files import write_text
from isotune.lab.studies.comparison import sentence
from isotune.lab.studies.figures import chart, title
from isotune.lab.studies.study import Published
from isotune.lab.studies.table import Line, Results, lines, of_analysis
from isotune.lab.studies.words import heading, is_share, printed, score_title
from isotune.report.drawing import save_png, svg
from isotune.report.templates import template


class Number(NamedTuple):
    """A score of a line, in digits; "" is what isn't there."""

    mean: str
    deviation: str
    least: str
    greatest: str
    n: int
    published: str
    best: bool


class Shown(NamedTuple):
    """A figure: as an element of the page, and the file with its interactive form."""

    element: str
    title: str
    page: str


class Found(NamedTuple):
    """An analysis: what it says, its figure as a data URL, its interactive form, and what is published of it."""

    title: str
    findings: Sequence[str]
    picture: str
    page: str
    published: Sequence[tuple[Published, Mapping[str, float]]]


def write_page(folder: Path) -> Path:
    """Writes study.html and the figures into a study's folder; returns the page's path.

    Raises:
        InputError: the folder holds no study, or a damaged one.
    """
    results = Results.read(folder)
    study = results.study
    found = lines(study, results.runs, results.statistics)
    page = folder / "study.html"
    text = template("study.html.j2").render(
        results=results,
        study=study,
        aggregation=AGGREGATIONS[study.aggregation],
        lines=[(line, [_number(results, found, line, score) for score in study.scores]) for line in found],
        heads=[heading(study, score) for score in study.scores],
        beside=[any(score in row.scores for row in study.published if not row.analysis) for score in study.scores],
        problems=_problems(results, found),
        comparisons=[(sentence(study, one), one) for one in results.comparisons],
        judged=score_title(study.judged),
        number=lambda value: printed(study, study.judged, value),
        figures=[_figure(folder, results, found, number) for number in range(len(study.figures))],
        analyses=[_analysis(folder / "analyses", results, name) for name in results.analyses],
    )
    write_text(page, text)
    return page


def _number(results: Results, found: Sequence[Line], line: Line, score: str) -> Number:
    study, known = results.study, line.published
    published = ""
    if known and score in known.scores:
        published = printed(study, score, known.scores[score], published=True)
        if score in known.deviation:
            published += f" ± {printed(study, score, known.deviation[score], published=True)}"
    here = line.summary(score)
    if here is None:
        return Number("", "", "", "", 0, published, False)

    def text(value: float) -> str:
        return printed(study, score, value)

    others = [other.mean for one in found if one is not line and (other := one.summary(score))]
    best = is_share(study, score) and bool(others) and here.mean > max(others)
    deviation = "" if here.deviation is None else text(here.deviation)
    return Number(text(here.mean), deviation, text(here.least), text(here.greatest), here.n, published, best)


def _problems(results: Results, found: Sequence[Line]) -> list[str]:
    """What a reader has to know before the numbers."""
    study = results.study
    problems = [f"{line.title}: {problem}" for line in found for problem in dict.fromkeys(line.problems)]
    if waiting := sum(line.waiting for line in found):
        problems.append(f"{waiting} of {len(results.runs)} runs are yet to be made: the same command goes on.")
    measured = {score for line in found for score in line.values}
    missing = [score for score in study.scores if score not in measured]
    if missing and results.runs and not waiting:
        problems.append(f"No run has {', '.join(missing)}: these are no scores of what the study evaluates.")
    if study.published and results.model and set(study.models) - {results.model}:
        problems.append(f"Measured on {results.model}; the published numbers are of {', '.join(study.models)}.")
    return problems


def _figure(folder: Path, results: Results, found: Sequence[Line], number: int) -> Shown:
    """Draws a figure for the page, for paper and for a browser."""
    figure = results.study.figures[number]
    drawn, name = chart(results.study, figure, found), title(figure)
    if not drawn.panels:
        return Shown("", name, "")
    place = folder / "figures"
    place.mkdir(exist_ok=True)
    path = place / f"figure-{number + 1}.png"
    save_png(drawn, path)
    element = svg(drawn, f"figure-{number + 1}", name)
    page = path.with_suffix(".html")
    try:
        from isotune.report.interactive import save_page

        save_page(page, f"{results.study.title}: {name}", [], drawn)
    except ImportError:
        return Shown(element, name, "")
    return Shown(element, name, page.relative_to(folder).as_posix())


def _analysis(folder: Path, results: Results, name: str) -> Found:
    """What an analysis left in its folder."""
    try:
        content: dict[str, Any] = json.loads((folder / f"{name}.json").read_text("utf-8"))
        picture = b64encode((folder / f"{name}.png").read_bytes()).decode()
        shows, findings, table = (content[key] for key in ("title", "findings", "table"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder}: the analysis {name} can't be read: {error}") from error
    page = folder / f"{name}.html"
    link = f"{folder.name}/{page.name}" if page.exists() else ""
    beside = of_analysis(results.study, name, table)
    return Found(shows, findings, f"data:image/png;base64,{picture}", link, beside)

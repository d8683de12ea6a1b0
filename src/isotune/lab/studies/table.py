"""A study's table for a paper: the mean and deviation of each line, and the lines that it beats."""

from collections.abc import Iterable, Mapping

from isotune.evaluation import Cell, ScoreTable
from isotune.lab.studies.comparison import LEVEL, Comparison
from isotune.lab.studies.lines import Line
from isotune.lab.studies.page import Results, is_best
from isotune.lab.studies.study import Study
from isotune.lab.studies.wording import digits, heading, is_share, measured_digits, score_title

PUBLISHED = "{}, published"
"""The name of a row with the numbers that a paper prints of a line."""


def score_table(results: Results) -> ScoreTable:
    """The table of what a study found. Published numbers have a row below that of their line."""
    study = results.study
    lines = results.lines
    beaten = _beaten(study, results.comparisons)
    rows = {}
    for line in lines:
        if line.values or line.published is None:
            rows[line.title] = [
                _measured(study, lines, line, score, beaten) for score in study.scores
            ]
        if line.published:
            rows[PUBLISHED.format(line.title)] = [
                _published(study, line, score) for score in study.scores
            ]
    columns = [heading(study, score) for score in study.scores]
    compared: tuple[str, ...] = ()
    if results.comparisons and is_share(study, study.judged):
        compared = (heading(study, study.judged),)
    return ScoreTable(study.title, _note(study), columns, rows, compared)


def _note(study: Study) -> str:
    seeds = ", ".join(map(str, study.seeds))
    return (
        f"Mean ± standard deviation over the seeds {seeds}, as far as they are made. Marks above "
        f"{score_title(study.judged)} name the rows that it beats, of those that the study "
        f"compares: p < {LEVEL:g} in the paired t-test over seeds after Holm's correction, or, "
        "with a single seed, a 95 % interval over the test pairs that doesn't hold 0."
    )


def _beaten(study: Study, comparisons: Iterable[Comparison]) -> dict[str, tuple[str, ...]]:
    """By the title of a line, the titles of the lines that it beats by the judged score."""
    beaten: dict[str, tuple[str, ...]] = {}
    if not is_share(study, study.judged):
        # Nobody has said whether more is better.
        return beaten
    for comparison in comparisons:
        if comparison.differs:
            earlier = beaten.get(comparison.ahead, ())
            beaten[comparison.ahead] = (*earlier, comparison.behind)
    return beaten


def _measured(
    study: Study,
    lines: list[Line],
    line: Line,
    score: str,
    beaten: Mapping[str, tuple[str, ...]],
) -> Cell:
    """What was measured of a line."""
    summary = line.summary(score)
    if summary is None:
        return Cell()
    mean, deviation = summary
    losers: tuple[str, ...] = ()
    if score == study.judged:
        losers = beaten.get(line.title, ())
    return Cell(
        value=measured_digits(study, score, mean),
        deviation="" if deviation is None else measured_digits(study, score, deviation),
        is_best=is_best(study, lines, line, score),
        beaten=losers,
    )


def _published(study: Study, line: Line, score: str) -> Cell:
    """What the paper prints of a line."""
    if line.published is None or score not in line.published.scores:
        return Cell()
    deviation = line.published.deviation.get(score)
    return Cell(
        value=digits(study, score, line.published.scores[score]),
        deviation="" if deviation is None else digits(study, score, deviation),
    )

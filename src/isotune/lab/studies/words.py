"""What a study's things are called, and how its numbers are printed."""

from __future__ import annotations

from isotune.evaluation.results import MEASURES
from isotune.evaluation.tasks import task_title
from isotune.lab.studies.study import RUN_SCORES, START, Cell, Study, Value

COUNTS = RUN_SCORES[1:]  # all but the dev score


def in_words(arm: str, cell: Cell) -> str:
    """An arm at a place in the grid."""
    return ", ".join([arm, *(f"{label(option)} {plain(value)}" for option, value in cell.items())])


def label(option: str) -> str:
    """An option's name in words: "augmentations.0" is the first of the augmentations."""
    name, _, place = option.replace("_", " ").partition(".")
    return f"{name} {int(place) + 1}" if place else name


def plain(value: Value) -> str:
    """An option's value in words."""
    match value:
        case tuple():
            return " and ".join(map(plain, value))
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
    return str(value).replace("_", " ")


def is_share(study: Study, score: str) -> bool:
    """Whether a score is a correlation, a cosine or an accuracy, which are printed times the study's scale."""
    return not study.statistics and not score.removeprefix(START).endswith((*COUNTS, *MEASURES))


def score_title(score: str) -> str:
    """What a score is called."""
    name = score.removeprefix(START)
    title = task_title(name)
    title = name.replace("_", " ") if title == name else title
    return title if score == name else f"{title} at the start"


def heading(study: Study, score: str) -> str:
    """A score at the head of a column or at an axis."""
    return score_title(score) + (" x 100" if is_share(study, score) and study.scale == 100 else "")


def scaled(study: Study, score: str, value: float) -> float:
    """A measured value as the study's table has it."""
    return study.scale * value if is_share(study, score) else value


def printed(study: Study, score: str, value: float, published: bool = False) -> str:
    """A value as the study's table has it; what is published is so already."""
    value = float(value if published else scaled(study, score, value))
    if is_share(study, score):
        return f"{value:.{2 if study.scale == 100 else 3}f}"
    if score.removeprefix(START).endswith(MEASURES):
        return f"{value:.3f}"
    return f"{value:,.0f}" if value >= 100 or value.is_integer() else f"{value:.2f}"

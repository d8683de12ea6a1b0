"""What the arms, options and scores of a study are called in tables, and how their numbers are printed.

A measured correlation is in [-1, 1]. The table prints it times the study's scale, as the paper does.
"""

from isotune.evaluation import MEASURES, task_title
from isotune.lab.studies.study import PREDICTED, RUN_SCORES, START, Cell, Study, Value

UNSCALED = (*RUN_SCORES[2:], *MEASURES)  # scores that are no share of 1, such as seconds


def line_title(arm: str, cell: Cell) -> str:
    """An arm at a place in the grid: "ConSERT, batch size 16"."""
    return ", ".join(
        [arm, *(f"{value_text(option)} {value_text(value)}" for option, value in cell.items())]
    )


def value_text(value: Value) -> str:
    """An option, or the value of one, in words."""
    match value:
        case tuple():
            return " and ".join(map(value_text, value))
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
    return str(value).replace("_", " ")


def is_share(study: Study, score: str) -> bool:
    """Whether a score is a correlation, a cosine or an accuracy, which the table prints times the study's scale."""
    return not study.statistics and not score.removeprefix(START).endswith(UNSCALED)


def score_title(score: str) -> str:
    """A score in words."""
    name = score.removeprefix(START)
    title = task_title(name)
    title = name.replace("_", " ") if title == name else title
    return title if score == name else f"{title} at the start"


def heading(study: Study, score: str) -> str:
    """A score as the title of a column or an axis, with its scale."""
    return score_title(score) + (" x 100" if is_share(study, score) and study.scale == 100 else "")


def scaled(study: Study, score: str, value: float) -> float:
    """A measured value on the scale of the study's table."""
    return study.scale * value if is_share(study, score) else value


def digits(study: Study, score: str, value: float) -> str:
    """A value that is on the scale of the study's table already, such as a published one, as text."""
    if score.startswith(PREDICTED) and float(value).is_integer():  # a class
        return f"{value:.0f}"
    if is_share(study, score):
        return f"{value:.{2 if study.scale == 100 else 3}f}"
    if score.removeprefix(START).endswith(MEASURES):
        return f"{value:.3f}"
    return f"{value:,.0f}" if value >= 100 or float(value).is_integer() else f"{value:.2f}"


def measured_digits(study: Study, score: str, value: float) -> str:
    """A measured value as text."""
    return digits(study, score, scaled(study, score, value))

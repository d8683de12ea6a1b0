"""What the arms, options and scores of a study are called in tables, and how numbers are printed.

A measured correlation is in [-1, 1]. The table prints it times the study's scale, as the paper
does.
"""

from isotune.evaluation import MEASURES, task_title
from isotune.lab.studies.study import ENCODING, PREDICTED, RUN_SCORES, START, Cell, Study, Value

UNSCALED = (*RUN_SCORES[2:], *MEASURES)
"""Scores that are no share of 1, such as seconds."""


def line_title(arm: str, cell: Cell) -> str:
    """An arm at a place in the grid: "ConSERT, batch size 16"."""
    texts = [arm]
    for option, value in cell.items():
        texts.append(f"{value_text(option)} {value_text(value)}")
    return ", ".join(texts)


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
    """Whether a score is a correlation, a cosine or an accuracy.

    The table prints such a score times the study's scale.
    """
    if study.statistics or score in study.timed:
        return False
    return not score.removeprefix(START).endswith(UNSCALED)


def score_title(score: str) -> str:
    """A score in words."""
    name = score.removeprefix(START)
    if name.startswith(f"{ENCODING}:"):
        _, _, task = name.partition(":")
        return f"seconds of encoding {task_title(task)}"
    title = task_title(name)
    if title == name:
        title = name.replace("_", " ")
    if score.startswith(START):
        return f"{title} at the start"
    return title


def heading(study: Study, score: str) -> str:
    """A score as the title of a column or an axis, with its scale."""
    title = score_title(score)
    if is_share(study, score) and study.scale == 100:
        return f"{title} x 100"
    return title


def scaled(study: Study, score: str, value: float) -> float:
    """A measured value on the scale of the study's table."""
    if is_share(study, score):
        return study.scale * value
    return value


def digits(study: Study, score: str, value: float) -> str:
    """A value as text, if it is on the scale of the study's table, as a published one is."""
    is_whole = float(value).is_integer()
    if score.startswith(PREDICTED) and is_whole:
        # The prediction is a class.
        return f"{value:.0f}"
    if is_share(study, score):
        decimals = 2 if study.scale == 100 else 3
        return f"{value:.{decimals}f}"
    if score.removeprefix(START).endswith(MEASURES):
        return f"{value:.3f}"
    if value >= 100 or is_whole:
        return f"{value:,.0f}"
    return f"{value:.2f}"


def measured_digits(study: Study, score: str, value: float) -> str:
    """A measured value as text."""
    return digits(study, score, scaled(study, score, value))

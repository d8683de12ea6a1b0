"""`isotune predict`: the labels of new texts, with their probabilities."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from isotune.cli.parameters import PAIRS, PRECISION, SOURCES, Name
from isotune.errors import counted
from isotune.kernels import Precision

if TYPE_CHECKING:
    from isotune.use.predictions import Chance, Prediction

MODEL = "An encoder with a classifier, such as the folder encoder of a run on texts with labels."
FILE = f"The texts: {SOURCES}. Rows with a blank text are left out."
OUT = (
    "A new file for all rows: .csv, .tsv, .jsonl or .parquet. It has the columns of FILE, and the "
    "columns predicted and probability. Unset: print the first rows."
)
COLUMNS = (
    "The column that holds the text, such as sentence=body, or the columns of pairs: "
    "sentence1=question sentence2=answer. Unset: the columns that the classifier learned from, or "
    "else those with usual names."
)
TASK = "The task to predict, for an encoder with classifiers of several tasks."

ROWS = 20
"""Rows that are printed."""

WIDTH = 80
"""Characters of a text that are printed."""


def predict(
    model: Annotated[Name, Parameter(help=MODEL)],
    /,
    *file: Annotated[Name, Parameter(help=FILE, required=True)],
    out: Annotated[Path | None, Parameter(help=OUT, metavar="FILE")] = None,
    columns: Annotated[
        dict[str, str] | None, Parameter.combine(PAIRS, Parameter(help=COLUMNS))
    ] = None,
    task: Annotated[str | None, Parameter(help=TASK)] = None,
    precision: Annotated[Precision, PRECISION] = "auto",
) -> None:
    """A probability is calibrated on rows that the run has set apart. Of several labels a text,
    those with a probability above 0.5 are given.
    """
    from isotune.encoder.classifier import Classifier
    from isotune.encoder.stream import progress
    from isotune.files import atomic_write
    from isotune.use.predictions import predict_rows, writer_of

    if out is None:
        classifier = Classifier.load(model, task=task, precision=precision)
        _print(predict_rows(classifier, file, columns, most=ROWS, say=_say))
        return
    write = writer_of(out)
    with atomic_write(out, new=True) as path, progress(None) as advance:
        classifier = Classifier.load(model, task=task, precision=precision)
        count = write(path, predict_rows(classifier, file, columns, advance=advance, say=_say))
    print(f"{out}: {counted(count, 'row')}, each with what is predicted")


def _say(words: str) -> None:
    """Prints a line on standard error, so that standard output has the predictions alone."""
    print(words, file=sys.stderr)


def _print(predictions: Iterator[Prediction]) -> None:
    from isotune.cli.tables import print_table
    from isotune.errors import printable

    rows = []
    for prediction in predictions:
        text = " | ".join(_texts(prediction.text))
        if len(text) > WIDTH:
            text = text[: WIDTH - 4] + " ..."
        label = printable(_words(prediction.predicted))
        rows.append([label, _words(prediction.probability), printable(text)])
    print_table(["predicted", "probability", "text"], rows)
    if len(rows) == ROWS:
        print(f"the first {ROWS} rows; --out FILE writes all")


def _texts(text: str | tuple[str, str]) -> tuple[str, ...]:
    if isinstance(text, str):
        return (text,)
    return text


def _words(value: str | tuple[str, ...] | Chance) -> str:
    """Labels, scores or probabilities as they are printed."""
    match value:
        case None:
            return ""
        case str():
            return value
        case tuple():
            return ", ".join(map(_words, value))
    return f"{value:.4f}"

"""What an analysis finds, and the files it becomes."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from math import nan
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from isotune.data import ScoredPairs
from isotune.evaluation import correlations
from isotune.files import write_text
from isotune.report.chart import Chart
from isotune.report.drawing import save_png

logger = logging.getLogger(__name__)

Row: TypeAlias = dict[str, Any]
Table: TypeAlias = list[Row]


@dataclass(frozen=True)
class Analysis:
    """An analysis of encoders.

    Attributes:
        name: its key in `ANALYSES`.
        title: what it shows, and where it was published.
        tasks: what it looked at, "name:split" or a file's name.
        options: those that were given.
        findings: what there is to see, in sentences.
        table: the numbers, row by row; correlations and cosines are in [-1, 1].
        chart: its figure.
    """

    name: str
    title: str
    tasks: Sequence[str]
    options: Mapping[str, Any]
    findings: Sequence[str]
    table: Table
    chart: Chart

    def write(self, folder: Path) -> list[Path]:
        """Writes NAME.json, NAME.png and, where plotly is installed, NAME.html; returns their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        data, picture, page = (folder / f"{self.name}.{ending}" for ending in ("json", "png", "html"))
        content = {
            "analysis": self.name,
            "title": self.title,
            "tasks": self.tasks,
            "options": self.options,
            "versions": {package: version(package) for package in ("isotune", "torch", "transformers")},
            "findings": self.findings,
            "table": self.table,
        }
        write_text(data, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        save_png(self.chart, picture)
        try:
            from isotune.report.interactive import save_page

            save_page(page, self.title, [f"On {', '.join(self.tasks)}.", *self.findings], self.chart)
        except ImportError:
            _say_no_page()
            return [data, picture]
        return [data, picture, page]


def task_name(pairs: ScoredPairs) -> str:
    """What a table calls them: "name:split", or a file's name."""
    return ":".join(filter(None, (pairs.name, pairs.split)))


def spearman(gold: NDArray[np.float64], cosines: NDArray[np.float64]) -> float:
    """The rank correlation of two arrays [N]; 0 where all cosines are equal, NaN where all gold scores are."""
    both = correlations(gold, cosines)
    return both[0] if both else nan


def grouped(table: Table, key: str) -> dict[Any, Table]:
    """The rows of each value of a column, in the order of the table."""
    groups: dict[Any, Table] = {}
    for row in table:
        groups.setdefault(row[key], []).append(row)
    return groups


@cache
def _say_no_page() -> None:
    """Once a process."""
    logger.warning("There are no interactive figures without plotly; for them, pip install 'isotune[figures]'.")

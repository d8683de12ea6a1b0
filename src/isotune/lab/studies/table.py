"""A study's results as they are kept: study.json, which runs there are, and study.parquet, every number of each.

study.parquet is tidy, a row a number. Its columns are arm, model, seed (null for a model as it is), the options of the
grid (null where an arm lacks them), run (its key), score and value. A line of the study's table is an arm at one place
in the grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pydantic import BaseModel, ConfigDict, ValidationError

from isotune.errors import InputError
from isotune.files import replacing, write_text
from isotune.lab.studies.comparison import Comparison
from isotune.lab.studies.selection import Criterion
from isotune.lab.studies.statistics import Summary, summary
from isotune.lab.studies.study import Cell, Published, Study, Value, one_line
from isotune.lab.studies.words import in_words, plain, scaled


class Made(BaseModel):
    """A run of a study: what it is, and what became of it.

    Attributes:
        arm, model, seed, cell: as of `Run`; the model by its name.
        run: its key; "" where it has none because its model isn't there.
        problem: why it failed.
        values: score -> value; empty where it failed or is yet to be made.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    model: str
    seed: int | None
    cell: dict[str, Value]
    run: str
    problem: str = ""
    values: dict[str, float] = {}


class Results(BaseModel):
    """All of a study.

    Attributes:
        name: of the study, or its file.
        study: what it was told.
        model: what took the place of every model named; "" if nothing did.
        runs: in the order of the study.
        statistics: dataset -> size -> number, where the study asks for that.
        comparisons: of its lines.
        selection: how well steps would have been chosen without labels.
        analyses: those that were made.
        facts: what made it: versions, machine, time.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")

    name: str
    study: Study
    model: str
    runs: tuple[Made, ...]
    statistics: dict[str, dict[str, float]]
    comparisons: tuple[Comparison, ...]
    selection: tuple[Criterion, ...]
    analyses: tuple[str, ...]
    facts: dict[str, str | int]

    def write(self, folder: Path) -> None:
        """Writes both files, each whole or not at all."""
        values = {"runs": {"__all__": {"values"}}}
        _write_values(folder / "study.parquet", self.study, self.runs)
        write_text(folder / "study.json", self.model_dump_json(indent=2, exclude=values) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Results:
        """Reads them back.

        Raises:
            InputError: they aren't there, or damaged.
        """
        path = folder / "study.json"
        try:
            found = cls.model_validate_json(path.read_bytes())
            values: dict[str, dict[str, float]] = {}
            for row in parquet.read_table(folder / "study.parquet", columns=["run", "score", "value"]).to_pylist():
                values.setdefault(row["run"], {})[row["score"]] = row["value"]
        except ValidationError as error:
            raise one_line(error, str(path)) from error
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{folder}: its study can't be read: {' '.join(str(error).split())}") from error
        runs = [run.model_copy(update={"values": values.get(run.run, {})}) for run in found.runs]
        return found.model_copy(update={"runs": tuple(runs)})


def axes(study: Study) -> dict[str, list[Value]]:
    """All options of a study's grids, with all of their values."""
    found: dict[str, list[Value]] = {}
    for grid in (study.grid, *(arm.grid or {} for arm in study.arms)):
        for key, values in grid.items():
            found[key] = list(dict.fromkeys([*found.get(key, ()), *values]))
    return found


@dataclass
class Line:
    """An arm at one place in the grid.

    Attributes:
        arm: its name.
        cell: the place.
        values: score -> seed -> value.
        problems: why runs failed.
        waiting: how many are yet to be made.
        published: what the paper prints there.
    """

    arm: str
    cell: Cell
    values: dict[str, dict[int | None, float]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    waiting: int = 0
    published: Published | None = None

    @property
    def title(self) -> str:
        """What it is, in words."""
        return in_words(self.arm, self.cell)

    def summary(self, score: str) -> Summary | None:
        """A score over the seeds; None where there is none."""
        values = self.values.get(score)
        return summary(list(values.values())) if values else None


def lines(study: Study, runs: Iterable[Made], statistics: Mapping[str, Mapping[str, float]] = {}) -> list[Line]:
    """The table's lines: the runs', then what else the paper prints."""
    found: dict[tuple[str, tuple[tuple[str, Value], ...]], Line] = {}
    for run in runs:
        line = found.setdefault((run.arm, tuple(run.cell.items())), Line(run.arm, run.cell))
        line.waiting += not (run.values or run.problem)
        line.problems += [run.problem] if run.problem else []
        for score, value in run.values.items():
            line.values.setdefault(score, {})[run.seed] = value
    result = [*found.values(), *(_sizes(name, sizes) for name, sizes in statistics.items())]
    for published in study.published:
        if published.analysis:
            continue
        here = [line for line in result if line.arm == published.arm and line.cell == published.at]
        if not here:
            here = [Line(published.arm, published.at)]
            result += here
        here[0].published = published
    return result


def of_analysis(
    study: Study, name: str, table: Iterable[Mapping[str, Any]]
) -> list[tuple[Published, dict[str, float]]]:
    """What the paper prints of an analysis, each with what stands at that place in the analysis's table."""
    rows = list(table)
    found = []
    for published in study.published:
        if published.analysis == name:
            place = {"encoder": published.arm, **published.at}
            row: Mapping[str, Any] = next((row for row in rows if place.items() <= row.items()), {})
            values = {score: scaled(study, score, row[score]) for score in published.scores if score in row}
            found.append((published, values))
    return found


def _sizes(name: str, sizes: Mapping[str, float]) -> Line:
    return Line(name, {}, values={score: {None: value} for score, value in sizes.items()})


def _write_values(path: Path, study: Study, runs: Sequence[Made]) -> None:
    """An option of the grid is a column of numbers if all its values are, or else of text."""
    kinds = {
        key: pa.float64() if all(type(value) in (int, float) for value in values) else pa.string()
        for key, values in axes(study).items()
    }
    columns = {"arm": pa.string(), "model": pa.string(), "seed": pa.int64(), **kinds}
    columns |= {"run": pa.string(), "score": pa.string(), "value": pa.float64()}
    rows: list[dict[str, Any]] = []
    for run in runs:
        cell = {key: value if kinds[key] == pa.float64() else plain(value) for key, value in run.cell.items()}
        about = {"arm": run.arm, "model": run.model, "seed": run.seed, **cell, "run": run.run}
        rows += [{**about, "score": score, "value": value} for score, value in run.values.items()]
    with replacing(path) as part:
        parquet.write_table(pa.Table.from_pylist(rows, pa.schema(list(columns.items()))), part)

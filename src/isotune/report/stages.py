"""The stages of a run, out of the records of its metrics.jsonl.

Steps count through all stages, so a stage begins at the step where the one before ended, and its first dev record is
that of the encoder it starts from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from isotune.errors import InputError

Record = Mapping[str, Any]

DEV_KEYS = ("kind", "stage", "step", "metric", "score", "best")  # of a dev record; what else it has is a part
METRICS = {"spearman": "Spearman", "pearson": "Pearson", "matthews": "Matthews", "f1": "F1"}  # others are words


class Change(NamedTuple):
    """A number at two moments of a stage."""

    name: str
    first: float
    last: float


@dataclass(frozen=True)
class StageRecords:
    """What was recorded of one stage, each kind in the order written.

    Attributes:
        number: from 1.
        method: its method; blank where the recipe isn't known.
        train: losses.
        dev: dev scores.
        space: measurements of the collapse monitor.
    """

    number: int
    method: str
    train: Sequence[Record]
    dev: Sequence[Record]
    space: Sequence[Record]

    @property
    def title(self) -> str:
        """What it is, in a line."""
        return f"Stage {self.number}: {self.method}" if self.method else f"Stage {self.number}"

    @property
    def steps(self) -> tuple[int, int]:
        """The first and the last step recorded."""
        steps = [record["step"] for record in (*self.train, *self.dev, *self.space)]
        return min(steps), max(steps)

    @property
    def metric(self) -> str:
        """What the dev score is, in words."""
        metric: str = self.dev[0]["metric"]
        return METRICS.get(metric, metric)

    @property
    def parts(self) -> list[str]:
        """The names of what a dev score is the mean of; none where it is no mean."""
        return [key for key in self.dev[0] if key not in DEV_KEYS] if self.dev else []

    @property
    def own_metric(self) -> bool:
        """Whether the method is scored on labelled data of its own, not by the correlation on scored pairs."""
        return bool(self.dev) and (bool(self.parts) or self.dev[0]["metric"] not in ("spearman", "pearson"))

    @property
    def kept(self) -> Record:
        """The dev record of the encoder that the stage kept."""
        return [record for record in self.dev if record["best"]][-1]

    @property
    def terms(self) -> list[str]:
        """The names of the loss's terms."""
        return list(dict.fromkeys(term for record in self.train for term in record["terms"]))

    @property
    def scores(self) -> list[Change]:
        """The dev score and its parts, at the start and for the encoder that was kept."""
        if not self.dev:
            return []
        start, kept = self.dev[0], self.kept
        names = {"score": self.metric, **{part: METRICS.get(part, part) for part in self.parts}}
        return [Change(name, start[key], kept[key]) for key, name in names.items()]

    @property
    def losses(self) -> list[Change]:
        """The terms of the loss, in the first and the last record; with their sum if there are several."""
        if not self.train:
            return []
        first, last = self.train[0], self.train[-1]
        terms = [Change(term, first["terms"][term], last["terms"][term]) for term in self.terms]
        return [*terms, Change("sum", first["loss"], last["loss"])] if len(terms) > 1 else terms


def group_by_stage(metrics: Mapping[str, Sequence[Record]], methods: Sequence[str]) -> list[StageRecords]:
    """The stages of which something was recorded.

    Args:
        metrics: the records of metrics.jsonl by kind; those without a stage are the first one's.
        methods: the method of each stage, if they are known.
    """
    kinds = [metrics[kind] for kind in ("train", "dev", "space")]
    numbers = sorted({record.get("stage", 1) for records in kinds for record in records})
    found = []
    for number in numbers:
        train, dev, space = ([record for record in kind if record.get("stage", 1) == number] for kind in kinds)
        method = methods[number - 1] if number <= len(methods) else ""
        found.append(StageRecords(number, method, train, dev, space))
    return found


def read_records(path: Path) -> dict[str, list[Record]]:
    """The records of a metrics.jsonl by kind. A crash can cut the last line short: it is left out where it is broken.

    Raises:
        InputError: there is no such file, or it is damaged.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist: {path.parent} is not a run folder, or its training never began")
    records: dict[str, list[Record]] = {"train": [], "dev": [], "space": [], "warning": []}
    lines = path.read_bytes().splitlines()  # bytes: a line may be cut inside a character
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except ValueError as error:  # also a UnicodeDecodeError
            if number == len(lines):
                break
            raise InputError(f"{path}, line {number}: not JSON: {error}") from error
        if not isinstance(record, dict) or "kind" not in record:
            raise InputError(f"{path}, line {number}: not what a run writes: {str(record)[:60]}")
        records.setdefault(record["kind"], []).append(record)
    return records

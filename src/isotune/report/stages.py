"""What a run recorded in its metrics.jsonl, stage by stage.

Steps count through all stages: a stage begins at the step where the stage before ended, and its
first dev record is of the encoder that it starts from.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isotune.data.trained_rows import TRAINED_ROWS
from isotune.errors import InputError
from isotune.evaluation.examples import EXAMPLES
from isotune.evaluation.results import MEASURE_TITLES
from isotune.evaluation.run_results import place_of_step
from isotune.evaluation.text_changes import CHANGES

MetricsRecord = Mapping[str, Any]

DEV_KEYS = ("kind", "stage", "step", "metric", "score", "best")
"""The keys of a dev record that are no parts of its score."""

NEXT = "next.json"
"""The file of the lines that the log of a finished run ends with."""

KINDS = ("train", "dev", "test", "space", "candidate")
"""The kinds of records that belong to a stage."""

OPTIONAL = (
    "recipe.toml",
    "evaluation.json",
    "data.json",
    "environment.json",
    CHANGES,
    EXAMPLES,
    NEXT,
    TRAINED_ROWS,
    "cosines.npz",
)
"""The files of a run that may be missing: a report or a card is written without what they say."""

METRIC_TITLES = {**MEASURE_TITLES, "matthews": "Matthews"}
"""The metrics whose titles are not their names."""


@dataclass(frozen=True)
class StageRecords:
    """The records of one stage of a run, each kind in the order written."""

    number: int
    """The stage's number, from 1."""

    method: str
    """The stage's method; empty if the recipe is missing."""

    train: Sequence[MetricsRecord]
    """The losses."""

    dev: Sequence[MetricsRecord]
    """The dev scores."""

    space: Sequence[MetricsRecord]
    """The measures of the vector space."""

    test: Sequence[MetricsRecord] = ()
    """The kept step's metrics on rows that chose nothing, if there are such rows."""

    candidate: Sequence[MetricsRecord] = ()
    """The candidates between start and end, where there were any."""

    @property
    def title(self) -> str:
        """The stage's number and method."""
        title = f"Stage {self.number}"
        if self.method:
            title += f": {self.method}"
        return title

    @property
    def steps(self) -> tuple[int, int]:
        """The first and the last step recorded."""
        steps = [record["step"] for record in (*self.train, *self.dev, *self.space)]
        return min(steps), max(steps)

    @property
    def metric(self) -> str:
        """The title of the dev score's metric."""
        metric = str(self.dev[0]["metric"])
        return METRIC_TITLES.get(metric, metric)

    @property
    def parts(self) -> list[str]:
        """The names of the scores whose mean the dev score is; empty if it is no mean."""
        if not self.dev:
            return []
        return [key for key in self.dev[0] if key not in DEV_KEYS]

    @property
    def kept(self) -> MetricsRecord:
        """The record, with a dev score, of the encoder that the stage kept."""
        for record in self.candidate:
            if record["kept"]:
                return record
        *_, best = [record for record in self.dev if record["best"]]
        return best

    @property
    def place_of_kept(self) -> str:
        """Which encoder the stage kept, in words."""
        step = self.kept["step"]
        first, _ = self.steps
        if step == first and self.number > 1:
            return "its start"
        if not step:
            return "step 0"
        return place_of_step(step, self.kept.get("share", 1.0))

    @property
    def tested(self) -> dict[str, float]:
        """The metrics of the kept step on rows that chose nothing, by name.

        It is empty if there are no such rows.
        """
        if not self.test:
            return {}
        return {key: value for key, value in self.test[-1].items() if key not in DEV_KEYS}

    @property
    def terms(self) -> list[str]:
        """The names of the loss's terms."""
        return list(dict.fromkeys(term for record in self.train for term in record["terms"]))


def group_by_stage(
    metrics: Mapping[str, Sequence[MetricsRecord]], methods: Sequence[str]
) -> list[StageRecords]:
    """The records of each stage that has any, by kind.

    A record without a stage belongs to the first.
    """
    stages: dict[int, dict[str, list[MetricsRecord]]] = {}
    for kind in KINDS:
        for record in metrics[kind]:
            number = record.get("stage", 1)
            if number not in stages:
                stages[number] = {kind_of_stage: [] for kind_of_stage in KINDS}
            stages[number][kind].append(record)
    names = dict(enumerate(methods, start=1))
    result = []
    for number, records in sorted(stages.items()):
        result.append(StageRecords(number, names.get(number, ""), **records))
    return result


def sealed(record: MetricsRecord) -> str:
    """A line of metrics.jsonl: the record, and the CRC-32 of its JSON as 8 hexadecimal digits."""
    checksum = zlib.crc32(json.dumps(record).encode())
    return json.dumps({**record, "crc32": f"{checksum:08x}"})


def read_records(path: Path) -> dict[str, list[MetricsRecord]]:
    """The records of a metrics.jsonl by kind.

    Refuses a damaged file, but skips a last line cut by a crash.
    """
    if not path.exists():
        raise InputError(
            f"{path} does not exist: {path.parent} is not a run folder, or its training never began"
        )
    records: dict[str, list[MetricsRecord]] = {kind: [] for kind in (*KINDS, "warning")}
    content = path.read_bytes()
    # The lines are bytes, because a line may be cut inside a character.
    lines = content.splitlines()
    for number, line in enumerate(lines, start=1):
        is_cut = number == len(lines) and not content.endswith(b"\n")
        try:
            record = json.loads(line)
        # A UnicodeDecodeError is a ValueError too.
        except ValueError as error:
            if is_cut:
                break
            raise InputError(f"{path}, line {number}: not JSON: {error}") from error
        if not isinstance(record, dict) or "kind" not in record:
            raise InputError(f"{path}, line {number}: not a record of a run: {str(record)[:60]}")
        record.pop("crc32", None)
        if sealed(record).encode() != line:
            raise InputError(
                f"{path}, line {number}: it is damaged: its checksum is that of another line"
            )
        records.setdefault(record["kind"], []).append(record)
    return records

"""A study's results on disk: study.json."""

from pathlib import Path

from pydantic import ConfigDict

from isotune.evaluation import Result
from isotune.files import write_text
from isotune.lab.studies.comparison import Comparison
from isotune.lab.studies.lines import Line, MadeRun, table_lines
from isotune.lab.studies.study import Study

STUDY = "study.json"


class Results(Result):
    """Everything that a study found."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    name: str  # the study's name, or its file
    study: Study  # the study itself
    model: str  # the model that replaced every model of the study; "" if none did
    stand_ins: tuple[str, ...] = ()  # the sources that stand in for published data
    runs: tuple[MadeRun, ...]  # in the order of the study
    statistics: dict[str, dict[str, float]]  # dataset -> size -> number
    comparisons: tuple[Comparison, ...]  # the differences between the table's lines
    analyses: tuple[str, ...]  # the names of the analyses that were made
    facts: dict[str, str | int]  # versions, machine and time

    @property
    def lines(self) -> list[Line]:
        """The lines of the study's table."""
        return table_lines(self.study, self.runs, self.statistics)

    def write(self, folder: Path) -> None:
        """Writes study.json, whole or not at all."""
        write_text(folder / STUDY, self.model_dump_json(indent=2) + "\n")

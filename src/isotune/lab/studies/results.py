"""A study's results on disk: study.json."""

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from isotune.errors import InputError, invalid
from isotune.files import write_text
from isotune.lab.studies.comparison import Comparison
from isotune.lab.studies.lines import Line, MadeRun, table_lines
from isotune.lab.studies.study import Study


class Results(BaseModel):
    """Everything that a study found."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")

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
        write_text(folder / "study.json", self.model_dump_json(indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Reads the study.json that `write` wrote."""
        path = folder / "study.json"
        try:
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise InputError(f"{invalid(str(path), error)}; the command that made this study makes it again") from error
        except OSError as error:
            raise InputError(f"{folder}: its study can't be read: {error}") from error

"""`isotune report`: the page of a run or of a study, written again."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def report(
    folder: Annotated[Path, Parameter(help="The folder of a run or of a study.")], /
) -> None:
    """A run's encoder gets its model card again, too: README.md in its folder."""
    if (folder / "study.json").exists():
        from isotune.lab.studies.page import write_page

        print(write_page(folder))
    else:
        from isotune.encoder.encoder import Encoder
        from isotune.report import write_card, write_report

        if (folder / "encoder").exists():
            write_card(Encoder.load(folder / "encoder"), folder / "encoder")
        print(write_report(folder))

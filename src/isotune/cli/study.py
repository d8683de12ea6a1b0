"""`isotune study`: a comparison that a file describes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import PROCESSES, THREADS

NAME = "A TOML file, or a study of the package, such as own/methods; without one, these are listed."
OUT = "The study's folder: page, table, figures. Unset: studies/NAME."
RUNS = "A folder for the runs, which several studies can share. Unset: runs in the study's folder."
MODEL = "In place of every model that the study names: a folder, a name on the Hugging Face hub, or mini."
SEEDS = "In place of the study's."


def study(
    name: Annotated[str, Parameter(help=NAME)] = "",
    /,
    *,
    out: Annotated[Path | None, Parameter(help=OUT, metavar="DIR")] = None,
    runs: Annotated[Path | None, Parameter(help=RUNS, metavar="DIR")] = None,
    model: Annotated[str, Parameter(help=MODEL, metavar="NAME")] = "",
    seeds: Annotated[tuple[int, ...], Parameter(help=SEEDS, metavar="NUMBER...", consume_multiple=1)] = (),
    processes: Annotated[int | None, PROCESSES] = None,
    threads: Annotated[int | None, THREADS] = None,
) -> int:
    """Compare methods, models and options over several seeds, and say which differences there are.

    A run that was made is not made again: what was stopped or killed goes on with the same command.
    """
    if not name:
        _list()
        return 0
    from isotune.lab.studies.run import run_study

    out = out or Path("studies", name.removesuffix(".toml"))
    outcome = run_study(name, out, runs=runs, model=model, seeds=seeds, processes=processes, threads=threads)
    print(outcome.page)
    return outcome.code


def _list() -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from isotune.lab.studies import read_study, study_names

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("Study", no_wrap=True)
    table.add_column("What it is")
    for name in study_names():
        table.add_row(name, read_study(name).title)
    Console(highlight=False, markup=False, emoji=False).print(table)

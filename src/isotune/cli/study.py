"""`isotune study`: a comparison of methods, models or options, which a file describes."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from isotune.cli.parameters import (
    ARM,
    BUDGET,
    ENGINE,
    FORMAT,
    LIST_JSON,
    STAND_INS,
    THREADS,
    UPDATES,
    for_the_list,
    key_values,
    within,
)
from isotune.cli.reproduce import option_values
from isotune.errors import InputError

NAME = (
    "A TOML file, or a study that comes with isotune, such as own/protocol. Without a name, these "
    "are listed."
)
OUT = "The folder for the page, the table and the figures. Unset: studies/NAME."
RUNS = "The folder for the runs. Several studies can share it. Unset: runs in the study's folder."
MODEL = (
    "Use this model instead of every model of the study: a folder, a name on the Hugging Face "
    "hub, or bert-tiny."
)
SEEDS = "Use these seeds instead of the study's."
OPTIONS = (
    "Change options of all runs that have them, such as steps=200 or data=notes.txt. The page "
    "names the changed options."
)
SHOW = "Only print the study's TOML. A changed copy, mine.toml, is a study of your own."
KEEP = (
    "Keep the encoder of every trained run, as RUNS/KEY/encoder. A study with one more task then "
    "trains nothing again."
)


def study(
    name: Annotated[str, Parameter(help=NAME)] = "",
    /,
    *,
    out: Annotated[Path | None, Parameter(help=OUT, metavar="DIR")] = None,
    runs: Annotated[Path | None, Parameter(help=RUNS, metavar="DIR", group="Runs")] = None,
    model: Annotated[str, Parameter(help=MODEL, metavar="NAME")] = "",
    seeds: Annotated[
        tuple[int, ...], Parameter(help=SEEDS, metavar="NUMBER...", consume_multiple=1)
    ] = (),
    options: Annotated[
        dict[str, str] | None, key_values("NAME=VALUE, such as steps=200"), Parameter(help=OPTIONS)
    ] = None,
    arm: Annotated[tuple[str, ...], ARM] = (),
    updates: Annotated[int | None, UPDATES] = None,
    budget: Annotated[float | None, BUDGET, within(0, 100_000)] = None,
    show: Annotated[bool, Parameter(help=SHOW, negative="")] = False,
    stand_ins: Annotated[bool, STAND_INS] = False,
    keep_encoders: Annotated[bool, Parameter(help=KEEP, group="Runs", negative="")] = False,
    engine: Annotated[Literal["ray"] | None, ENGINE] = None,
    threads: Annotated[int | None, THREADS, within(1, 1000)] = None,
    form: Annotated[Literal["csv", "latex", "markdown"] | None, FORMAT] = None,
    as_json: Annotated[bool, LIST_JSON] = False,
) -> int:
    """The study ends with a page of tables, significance tests and figures. To resume a study that
    was stopped, give the same command again: finished runs are kept.
    """
    if not name:
        _list(as_json)
        return 0
    for_the_list(as_json)
    if show:
        changes = (out, runs, model, seeds, options, arm, updates, stand_ins, keep_encoders)
        ways = (budget is not None, engine, threads, form)
        if any((*changes, *ways)):
            raise InputError("--show prints the study's file as it is; leave the other options out")
        from isotune.lab.studies import study_text

        print(study_text(name), end="")
        return 0
    from isotune.lab.studies.run_study import run_study

    outcome = run_study(
        name,
        out or _default_folder(name),
        runs=runs,
        model=model,
        seeds=seeds,
        options=option_values(options or {}),
        arms=arm,
        updates=updates,
        budget=budget,
        stand_ins=stand_ins,
        keep_encoders=keep_encoders,
        on_ray=engine == "ray",
        threads=threads,
    )
    if form:
        print(outcome.table(form), end="")
    else:
        print(outcome.page)
    return int(outcome.failed > 0)


def _default_folder(name: str) -> Path:
    """The folder studies/NAME; of a file outside of the current folder, NAME is the file's own."""
    path = Path(name.removesuffix(".toml"))
    if path.is_absolute() or ".." in path.parts:
        path = Path(path.name)
    return Path("studies", path)


def _list(as_json: bool) -> None:
    from rich.table import Column

    from isotune.cli.tables import print_list
    from isotune.lab.studies import read_study, study_names

    titles = {name: read_study(name).title for name in study_names()}
    entries = [{"name": name, "title": title} for name, title in titles.items()]
    columns = (Column("Study", no_wrap=True), "What it compares")
    print_list(as_json, entries, columns, titles.items())

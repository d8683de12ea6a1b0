"""`isotune reproduce`: the papers' tables and figures, made again or listed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from cyclopts import Parameter

from isotune.cli.parameters import (
    ARM,
    BUDGET,
    ENGINE,
    LIST_JSON,
    STAND_INS,
    THREADS,
    UPDATES,
    for_the_list,
    key_values,
    within,
)

if TYPE_CHECKING:
    from isotune.lab.studies import Study

NAME = (
    "The table or figure, such as consert/table4; with --all, the paper. Without a name, all are "
    "listed."
)
EVERY = (
    "Make all tables and figures of a paper, such as consert: fetch what they need, say what each "
    "costs, make the runs, and write one page with all tables, DIR/PAPER.html. The same command "
    "goes on after any interruption."
)
MODEL = (
    "Use this model instead of every published model: a folder, a name on the Hugging Face hub, "
    "or bert-tiny."
)
SEEDS = "Use these seeds instead of the published ones."
OPTIONS = (
    "Change options of all runs that have them, such as learning_rate=1e-4 steps=200. A small "
    "model needs a higher learning rate and fewer steps than the published models. The page names "
    "the changed options."
)
FETCH = (
    "Only fetch the data and models that the table or figure needs to this machine, for use "
    "without a network."
)
OUT = (
    "The folder for all tables and figures: the page is written to DIR/NAME, the runs, which they "
    "share, to DIR/runs."
)


class Changes(NamedTuple):
    """What a person changes of the published studies."""

    model: str
    seeds: Sequence[int]
    options: Mapping[str, Any]
    arms: Sequence[str]
    updates: int | None
    stand_ins: bool


def reproduce(
    name: Annotated[str, Parameter(help=NAME)] = "",
    /,
    *,
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
    out: Annotated[Path, Parameter(help=OUT, metavar="DIR")] = Path("reproduced"),
    stand_ins: Annotated[bool, STAND_INS] = False,
    every: Annotated[bool, Parameter(name="--all", help=EVERY, negative="")] = False,
    fetch: Annotated[bool, Parameter(help=FETCH)] = False,
    engine: Annotated[Literal["ray"] | None, ENGINE] = None,
    threads: Annotated[int | None, THREADS, within(1, 1000)] = None,
    as_json: Annotated[bool, LIST_JSON] = False,
) -> int:
    """The result shows the measured scores beside the published ones. The list shows how many runs
    and which models each table or figure needs.
    """
    began = monotonic()
    if not (name or every):
        _list(as_json)
        return 0
    for_the_list(as_json)
    names = _studies(name, every)
    changes = Changes(model, seeds, option_values(options or {}), arm, updates, stand_ins)
    if fetch or every:
        _fetch(names, changes)
    if fetch:
        return 0
    if budget != 0:
        _tell_costs(names, changes, out)
    failed = _make(names, changes, out, budget, began, on_ray=engine == "ray", threads=threads)
    if every:
        from isotune.lab.studies.page import write_paper_page

        print(write_paper_page(out, names))
    return int(failed > 0)


def _tell_costs(names: Sequence[str], changes: Changes, out: Path) -> None:
    """Says how many hours the runs of each study take that are not made yet."""
    from isotune.console import PlainConsole, waiting
    from isotune.lab.studies.cost import Estimate, estimates
    from isotune.lab.studies.run_study import StudyRuns, as_asked

    console = PlainConsole(stderr=True, soft_wrap=True)
    studies = {}
    for name in names:
        study = as_asked(name, **changes._asdict())
        studies[name] = StudyRuns(study, out / "runs", changes.model, console)
    together = Estimate()
    with waiting("short trial runs measure the pace of this machine", console):
        for name, estimate in estimates(studies, out / "paces.json"):
            console.print(f"{name}: {estimate}")
            together += estimate
    if len(names) > 1:
        console.print(f"together: {together}")


def _make(
    names: Sequence[str],
    changes: Changes,
    out: Path,
    budget: float | None,
    began: float,
    *,
    on_ray: bool,
    threads: int | None,
) -> int:
    """Makes the studies one after another; returns how many runs failed.

    The budget counts from the time when the command `began`.
    """
    from isotune.lab.studies.run_study import run_study

    failed = 0
    for name in names:
        hours_left = budget
        if budget is not None:
            hours_left = max(0.0, budget - (monotonic() - began) / 3600)
        outcome = run_study(
            name,
            out / name,
            runs=out / "runs",
            budget=hours_left,
            on_ray=on_ray,
            threads=threads,
            **changes._asdict(),
        )
        failed += outcome.failed
        print(outcome.page)
    return failed


def _studies(name: str, every: bool) -> list[str]:
    """The study, or all of the paper.

    Studies that look into encoders come first, because the others don't keep theirs.
    """
    from isotune.errors import unknown
    from isotune.lab.studies import paper_names, read_study

    studies = list(paper_names())
    if not every:
        if name not in studies:
            raise unknown("table or figure", name, studies)
        return [name]
    of_paper = [study for study in studies if study.startswith(f"{name}/")]
    if not of_paper:
        raise unknown("paper", name, {study.partition("/")[0] for study in studies})
    return sorted(of_paper, key=lambda study: not read_study(study).analyses)


def option_values(texts: Mapping[str, str]) -> dict[str, Any]:
    """{option: value} of --options. A value that is not TOML is a string.

    >>> option_values({"learning_rate": "1e-4", "pooling": "cls", "layers": "[0, -1]"})
    {'learning_rate': 0.0001, 'pooling': 'cls', 'layers': [0, -1]}
    """
    values: dict[str, Any] = {}
    for name, text in texts.items():
        try:
            values[name] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            values[name] = text
    return values


def _list(as_json: bool) -> None:
    from rich.table import Column

    from isotune.cli.tables import print_list
    from isotune.lab.studies import paper_names, read_study
    from isotune.lab.studies.plan import plan_runs

    entries = []
    rows = []
    for name in paper_names():
        study = read_study(name)
        count = len(plan_runs(study))
        title = study.title.partition(": ")[2]
        models = ", ".join(model.rpartition("/")[2] for model in study.models)
        entries.append({"name": name, "title": study.title, "runs": count, "models": study.models})
        rows.append((name, f"{count}", "\n".join(filter(None, [title, models]))))
    columns = [
        Column("Table or figure", no_wrap=True),
        Column("Runs", justify="right", no_wrap=True),
        Column("What it shows; models", overflow="fold"),
    ]
    print_list(as_json, entries, columns, rows)


def _fetch(names: Sequence[str], changes: Changes) -> None:
    """Says how many runs there are, and fetches the data and models that they need."""
    from isotune.cli.datasets import fetch_all
    from isotune.cli.tables import stdout_console
    from isotune.data import DATASETS
    from isotune.errors import counted
    from isotune.lab.studies import read_study
    from isotune.lab.studies.plan import changed_study, needs

    studies = {}
    for name in names:
        studies[name] = changed_study(
            read_study(name, changes.arms),
            changes.seeds,
            changes.options,
            with_stand_ins=changes.stand_ins,
            updates=changes.updates,
        )
    count = _count_runs(studies.values(), changes.model)
    line = f"{', '.join(names)}: {counted(count, 'run')}"
    stdout_console().print(line, soft_wrap=True)
    datasets: dict[str, None] = {}
    models: dict[str, None] = {}
    for study in studies.values():
        sources, models_of_study = needs(study, changes.model)
        named = [source for source in sources if source.partition(":")[0] in DATASETS]
        datasets |= dict.fromkeys(named)
        models |= dict.fromkeys(models_of_study)
    fetch_all(datasets, models)


def _count_runs(studies: Iterable[Study], model: str) -> int:
    """How many different runs the studies need; they share runs that are equal."""
    from isotune.lab.studies.plan import plan_runs

    runs = set()
    for study in studies:
        for run in plan_runs(study, model or None):
            start = run.start and run.start.recipe
            runs.add(repr((run.model, run.encoder, run.recipe, start)))
    return len(runs)

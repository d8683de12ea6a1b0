"""`isotune reproduce`: the papers' tables and figures, made again or listed."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from isotune.cli.parameters import (
    ENGINE,
    LIST_JSON,
    STAND_INS,
    THREADS,
    for_the_list,
    key_values,
    within,
)

NAME = "The table or figure, such as consert/table4; with --all, the paper. Without a name, all are listed."
EVERY = (
    "Make all tables and figures of a paper, such as consert: say what that costs, fetch what they need, make the "
    "runs, and write one page with all tables, DIR/PAPER.html. The same command goes on after any interruption."
)
MODEL = "Use this model instead of every published model: a folder, a name on the Hugging Face hub, or bert-tiny."
SEEDS = "Use these seeds instead of the published ones."
OPTIONS = (
    "Change options of all runs that have them, such as learning_rate=1e-4 steps=200. A small model needs a higher "
    "learning rate and fewer steps than the published models. The page names the changed options."
)
FETCH = "Only fetch the data and models that the table or figure needs to this machine, for use without a network."
OUT = "The folder for all tables and figures: the page is written to DIR/NAME, the runs, which they share, to DIR/runs."


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
    out: Annotated[Path, Parameter(help=OUT, metavar="DIR")] = Path("reproduced"),
    stand_ins: Annotated[bool, STAND_INS] = False,
    every: Annotated[bool, Parameter(name="--all", help=EVERY, negative="")] = False,
    fetch: Annotated[bool, Parameter(help=FETCH)] = False,
    engine: Annotated[Literal["ray"] | None, ENGINE] = None,
    threads: Annotated[int | None, THREADS, within(1, 1000)] = None,
    as_json: Annotated[bool, LIST_JSON] = False,
) -> int:
    """The result shows the measured scores beside the published ones. The list shows how many runs and which models
    each table or figure needs.
    """
    if not (name or every):
        _list(as_json)
        return 0
    for_the_list(as_json)
    names = _studies(name, every)
    changes: dict[str, Any] = {
        "model": model,
        "seeds": seeds,
        "options": option_values(options or {}),
    }
    if fetch or every:
        _fetch(names, **changes, stand_ins=stand_ins)
    if fetch:
        return 0
    from isotune.lab.studies.page import write_paper_page
    from isotune.lab.studies.run_study import run_study

    running: dict[str, Any] = {
        "stand_ins": stand_ins,
        "on_ray": engine == "ray",
        "threads": threads,
    }
    failed = 0
    for study in names:
        outcome = run_study(study, out / study, runs=out / "runs", **changes, **running)
        failed += outcome.failed
        print(outcome.page)
    if every:
        print(write_paper_page(out, names))
    return int(failed > 0)


def _studies(name: str, every: bool) -> list[str]:
    """The study, or all of the paper: first those that look into encoders, which the others don't keep."""
    from isotune.errors import unknown
    from isotune.lab.studies import paper_names, read_study

    known = {study.partition("/")[0] for study in paper_names()} if every else paper_names()
    if name not in known:
        raise unknown("paper" if every else "table or figure", name, known)
    of_paper = [study for study in paper_names() if every and study.startswith(f"{name}/")]
    return sorted(of_paper, key=lambda study: not read_study(study).analyses) or [name]


def option_values(texts: Mapping[str, str]) -> dict[str, Any]:
    """{option: value} of --options. A value that is not TOML is a string.

    >>> option_values({"learning_rate": "1e-4", "steps": "200", "pooling": "cls", "layers": "[0, -1]"})
    {'learning_rate': 0.0001, 'steps': 200, 'pooling': 'cls', 'layers': [0, -1]}
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

    studies = {name: read_study(name) for name in paper_names()}
    entries, rows = [], []
    for name, study in studies.items():
        runs, models = (
            len(plan_runs(study)),
            ", ".join(model.rpartition("/")[2] for model in study.models),
        )
        about = filter(None, [study.title.partition(": ")[2], models])
        entries.append({"name": name, "title": study.title, "runs": runs, "models": study.models})
        rows.append((name, f"{runs}", "\n".join(about)))
    number = Column("Runs", justify="right", no_wrap=True)
    shows = Column("What it shows; models", overflow="fold")
    print_list(as_json, entries, [Column("Table or figure", no_wrap=True), number, shows], rows)


def _fetch(
    names: Sequence[str],
    model: str,
    seeds: Sequence[int],
    options: Mapping[str, Any],
    stand_ins: bool,
) -> None:
    from isotune.cli.datasets import fetch_all
    from isotune.cli.tables import stdout_console
    from isotune.data import DATASETS
    from isotune.errors import counted
    from isotune.lab.studies import read_study
    from isotune.lab.studies.plan import changed_study, needs, plan_runs

    studies = [
        changed_study(read_study(name), seeds, options, with_stand_ins=stand_ins) for name in names
    ]
    planned = [run for study in studies for run in plan_runs(study, model or None)]
    runs = {
        repr((run.model, run.encoder, run.recipe, run.start and run.start.recipe))
        for run in planned
    }
    as_published = not (model or seeds or options)
    costs = [
        f"{name}: {study.cost}"
        for name, study in zip(names, studies, strict=True)
        if study.cost and as_published
    ]
    lines = [f"{', '.join(names)}: {counted(len(runs), 'run')}", *costs]
    stdout_console().print("\n".join(lines), soft_wrap=True)
    needed = [needs(study, model) for study in studies]
    sources = dict.fromkeys(
        source for data, _ in needed for source in data if source.partition(":")[0] in DATASETS
    )
    fetch_all(sources, dict.fromkeys(name for _, models in needed for name in models))

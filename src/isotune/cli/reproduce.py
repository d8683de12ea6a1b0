"""`isotune reproduce`: the papers' tables and figures, listed or made."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from isotune.cli.parameters import PROCESSES, THREADS

NAME = "The table or figure, such as consert/table4; without one, they are listed."
MODEL = "In place of every published model: a folder, a name on the Hugging Face hub, or mini."
SEEDS = "In place of the published ones."
OPTIONS = (
    "Options other than the published ones, of all runs that have them, such as learning_rate=1e-4 steps=200: a small "
    "model wants a higher rate and fewer steps. They are part of the result."
)
BUDGET = "Begin no run that, by its estimate, isn't over after this many minutes. Unset: all are made."
OUT = "A folder for all of them: the page is in DIR/NAME, and the runs, which studies share, in DIR/runs."


def reproduce(
    name: Annotated[str, Parameter(help=NAME)] = "",
    /,
    *,
    model: Annotated[str, Parameter(help=MODEL, metavar="NAME")] = "",
    seeds: Annotated[tuple[int, ...], Parameter(help=SEEDS, metavar="NUMBER...", consume_multiple=1)] = (),
    options: Annotated[tuple[str, ...], Parameter(help=OPTIONS, metavar="NAME=VALUE...", consume_multiple=1)] = (),
    budget: Annotated[float | None, Parameter(help=BUDGET, metavar="MINUTES")] = None,
    out: Annotated[Path, Parameter(help=OUT, metavar="DIR")] = Path("reproduced"),
    processes: Annotated[int | None, PROCESSES] = None,
    threads: Annotated[int | None, THREADS] = None,
) -> int:
    """Make a table or figure of the papers, and see published beside measured; or list them all.

    The list has what each needs, whether that is on this machine, and hours, which are estimates.
    """
    if not name:
        _list(model)
        return 0
    from isotune.lab.studies.reproduce import reproduce as run

    outcome = run(
        name,
        out,
        model=model,
        seeds=seeds,
        options=option_values(options),
        budget=budget,
        processes=processes,
        threads=threads,
    )
    _show(outcome.page.parent)
    print(outcome.page)
    return outcome.code


def option_values(words: Sequence[str]) -> dict[str, Any]:
    """{option: value} out of the words of --options; a value is as in TOML, or text as it is.

    >>> option_values(["learning_rate=1e-4", "steps=200", "pooling=cls", "layers=[0, -1]"])
    {'learning_rate': 0.0001, 'steps': 200, 'pooling': 'cls', 'layers': [0, -1]}

    Raises:
        InputError: a word has no "=", or nothing on one side of it.
    """
    from isotune.errors import InputError

    values: dict[str, Any] = {}
    for word in words:
        key, _, text = word.partition("=")
        if not key or not text:
            raise InputError(f"--options {word}: write NAME=VALUE, such as steps=200")
        try:
            values[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            values[key] = text
    return values


def _list(model: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from isotune.lab.studies import paper_names, read_study
    from isotune.lab.studies.estimate import needs

    console = Console(highlight=False, markup=False, emoji=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("Table or figure", "Here"):
        table.add_column(column, no_wrap=True)
    for column in ("Runs", "CPU h", "GPU h"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("What it shows; models; data", overflow="fold")
    for name in paper_names():
        study = read_study(name)
        need = needs(study, model)
        about = [study.title.partition(": ")[2], _named(need.models), _named(need.data)]
        here = "no" if need.missing else "yes"
        table.add_row(name, here, f"{need.runs}", _hours(need.cpu), _hours(need.gpu), "\n".join(filter(None, about)))
    console.print(table)
    console.print(
        "Hours are estimated from the size of the model and of the data: two cores, float32; a GPU that is assumed to "
        "do 10 TFLOP/s and 10 steps a second. (-) isn't on this machine; a model may be fetched from the hub when a "
        "run needs it. For another model: --model."
    )


def _named(here: Mapping[str, bool]) -> str:
    """Names, those that aren't here marked: a model's last part, a dataset without its split, the STS tasks as one."""
    from isotune.evaluation import GROUPS

    short: dict[str, bool] = {}
    for name, is_here in here.items():
        label = name.rpartition("/")[2].partition(":")[0]
        short[label] = short.get(label, True) and is_here
    if short.keys() >= set(GROUPS["sts"]):
        seven = [short.pop(task) for task in GROUPS["sts"]]
        short = {"sts": all(seven), **short}
    return ", ".join(label if is_here else f"{label} (-)" for label, is_here in short.items())


def _hours(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.1 else "0" if not value else "<0.1"


def _show(folder: Path) -> None:
    """The study's table: of each line what was measured, and below it what is printed."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from isotune.lab.studies.reproduce import beside, of_analyses
    from isotune.lab.studies.table import Results

    results = Results.read(folder)
    study = results.study
    console = Console(highlight=False, markup=False, emoji=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column(study.title, overflow="fold")
    for score in study.scores:
        table.add_column(score, justify="right", no_wrap=True)
    for row in beside(results):
        table.add_row(*row)
    console.print(table)
    for text in (*of_analyses(results, folder), *filter(None, [study.note])):
        console.print(text)

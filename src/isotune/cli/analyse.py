"""`isotune analyse`: a look at encoders, as a table and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import ENCODER, labels

NAME = "The analysis; without one, they are listed."
TASKS = (
    "Scored pairs: datasets (their test split, or the one named, as in stsb:dev), the group sts, or files with "
    "sentence1, sentence2 and score. Unset: what the published figure is of, where $ISOTUNE_DATA has it, or else the "
    "bundled pairs."
)
OUT = "A folder for NAME.json, NAME.png and NAME.html."
SEED = "Of what is drawn by chance: the pairs of tsne and pairs, and the plane of tsne."


def analyse(
    name: Annotated[str, Parameter(help=NAME)] = "",
    /,
    *encoder: Annotated[str, ENCODER],
    tasks: Annotated[tuple[str, ...], Parameter(help=TASKS, metavar="NAME...", consume_multiple=1)] = (),
    out: Annotated[Path, Parameter(help=OUT, metavar="DIR")] = Path("analyses"),
    seed: Annotated[int | None, Parameter(help=SEED)] = None,
) -> None:
    """Look at encoders side by side: the papers' analyses, each with its figure."""
    from rich.console import Console

    from isotune.encoder.load import load_encoder
    from isotune.errors import InputError
    from isotune.lab.analyses import analyse_on, load_pairs

    if not name:
        return _list()
    if seed is not None and not 0 <= seed < 2**32:
        raise InputError(f"--seed {seed}: it is a whole number from 0 to {2**32 - 1}")
    options = {} if seed is None else {"seed": seed}
    pairs = load_pairs(name, tasks, options)
    if not encoder:
        raise InputError("no encoder: name at least one folder or hub name")
    if twice := next((one for one in encoder if encoder.count(one) > 1), None):
        raise InputError(f"encoder {twice} is named twice")
    if (out / f"{name}.json").exists():
        raise InputError(f"{out / name}.json: it exists already; choose another --out")
    loaded = {label: load_encoder(path) for label, path in zip(labels(encoder), encoder, strict=True)}
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: it can't be written ({error.strerror}); choose another --out") from error
    with Console(stderr=True).status(f"analysing: {name}"):
        found = analyse_on(name, loaded, pairs, **options)
        paths = found.write(out)
    print(*found.findings, *paths, sep="\n")


def _list() -> None:
    import rich
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from isotune.lab.analyses import ANALYSES

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("Analysis", "Shows", "Published", "On"):
        table.add_column(column)
    for name, entry in ANALYSES.items():
        table.add_row(name, entry.title, entry.source, ", ".join(entry.tasks))
    rich.print(table)

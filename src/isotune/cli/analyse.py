"""`isotune analyse`: an analysis of encoders, as a table and a figure."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import ENCODER, LIST_JSON, Name, for_the_list, labels

NAME = "The analysis to make. Without a name, the analyses are listed."
TASKS = (
    "The scored sentence pairs to look at: named datasets (their test split, or another one as in "
    "stsb:dev), the group sts, or files with the columns sentence1, sentence2 and score. Unset: "
    "the data of the published figure if $ISOTUNE_DATA has it, otherwise the bundled pairs."
)
OUT = "The folder for NAME.json and NAME.png."
SEED = (
    "The random seed of layers, which draws tokens, and of tsne, which draws pairs and starts at "
    "random."
)


def analyse(
    name: Annotated[str, Parameter(help=NAME)] = "",
    /,
    *encoder: Annotated[Name, ENCODER],
    tasks: Annotated[
        tuple[Name, ...], Parameter(help=TASKS, metavar="NAME...", consume_multiple=1)
    ] = (),
    out: Annotated[Path, Parameter(help=OUT, metavar="DIR")] = Path("analyses"),
    seed: Annotated[int, Parameter(help=SEED)] = 0,
    as_json: Annotated[bool, LIST_JSON] = False,
) -> None:
    from rich.text import Text

    from isotune.console import PlainConsole
    from isotune.encoder.encoder import Encoder
    from isotune.errors import InputError
    from isotune.files import make_folder
    from isotune.lab.analyses import ANALYSES, read_pairs
    from isotune.lab.analyses import analyse as analyse_encoders

    if not name:
        _list(as_json)
        return
    for_the_list(as_json)
    entry = ANALYSES[name]
    if not 0 <= seed < 2**32:
        raise InputError(f"--seed {seed}: it is a whole number from 0 to {2**32 - 1}")
    names = labels(encoder)
    for path in encoder:
        if encoder.count(path) > 1:
            raise InputError(f"encoder {path} is named twice")
    if (out / f"{name}.json").exists():
        raise InputError(f"{out / name}.json: it exists already; choose another --out")
    # A wrong name of a task is told before the encoders are loaded.
    read_pairs(name, tasks)
    encoders = {label: Encoder.load(path) for label, path in zip(names, encoder, strict=True)}
    make_folder(out)
    with PlainConsole(stderr=True).status(Text(f"analysing: {name}")):
        options = {"seed": seed} if entry.seeded else {}
        analysis = analyse_encoders(name, encoders, tasks, **options)
        paths = analysis.write(out)
    print(*analysis.findings, *paths, sep="\n")


def _list(as_json: bool) -> None:
    from isotune.cli.tables import print_list
    from isotune.lab.analyses import ANALYSES

    entries = []
    rows = []
    for name, entry in ANALYSES.items():
        entries.append(
            {"name": name, "title": entry.title, "source": entry.source, "tasks": entry.tasks}
        )
        rows.append((name, entry.title, entry.source, ", ".join(entry.tasks)))
    print_list(as_json, entries, ("Analysis", "Shows", "Published", "On"), rows)

"""Parameters that several commands have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import Parameter, Token

from isotune.errors import InputError

if TYPE_CHECKING:
    Name = str
else:
    # A name is always a str, which may be a path: the completion of a shell then offers files.
    Name = str | Path
ENCODER = Parameter(
    help="A sentence encoder or a language model: a folder, or a name on the Hugging Face hub."
)
PRECISION = Parameter(
    group="Computing",
    help="The number type that the encoder computes in. bfloat16 is faster than float32 on many "
    "machines, and gives slightly different vectors. auto is bfloat16 on a GPU that has it, else "
    "the type of the saved weights, usually float32.",
)
DIMENSIONS = Parameter(
    group="Computing",
    help="Keep this many features of a vector, the first ones: vectors are smaller. Unset: as many "
    "as the encoder's folder says (truncate_dim), or else all.",
    metavar="NUMBER",
)
ENGINE = Parameter(
    group="Runs",
    help="Make runs at the same time, on the Ray cluster at RAY_ADDRESS, whose machines share the "
    "folders, or by Ray on this machine: one for each GPU, or for each core. Unset: one run after "
    "another, with all threads or the GPU.",
)
ARM = Parameter(
    help="Add arms to the study, such as a method of your own beside a paper's: a TOML file with "
    "[[arms]], as a study has them, or NAME=RECIPE with a recipe or its TOML file. An added arm is "
    "compared with every arm. isotune study NAME --show prints the arms that are there.",
    metavar="FILE...",
    consume_multiple=1,
)
UPDATES = Parameter(
    help="Give every training this number of updates of the weights, which its stages share, and "
    "ten evaluations of each stage. Unset: the length of its recipe.",
    metavar="NUMBER",
)
BUDGET = Parameter(
    help="Begin no run after so many hours, and write the page with what is made. The same command "
    "goes on. With 0, the page shows what was made before. Unset: make all runs.",
    metavar="HOURS",
    group="Runs",
)
THREADS = Parameter(group="Runs", help="With --engine ray: the CPU threads of a run. Unset: 1.")
SOURCES = (
    "files (.txt, .csv, .tsv, .jsonl or .parquet, also .gz), patterns, named datasets, or - for "
    "standard input"
)
FILES = Parameter(help=f"The rows: {SOURCES}.", required=True)
ID = Parameter(
    name="--id",
    help="The column that tells rows apart. Unset: the column id, or else the file's name and the "
    "line number.",
    metavar="COLUMN",
)
INDEX = Parameter(help="The folder of an index, which isotune index has made.")
WHERE = Parameter(
    help="Only rows that fit this condition, such as \"lang = 'en' and year > 2020\". The columns "
    "are id, text and those of the files.",
    metavar="SQL",
)
JSON = Parameter(
    name="--json", help="Print JSON in place of text. AGENTS.md describes its form.", negative=""
)
LIST_JSON = Parameter(
    name="--json", help="Print the list as JSON. AGENTS.md describes its form.", negative=""
)
FORMAT = Parameter(
    help="Print the table in this format, for a paper or another program: with standard "
    "deviations, the best in bold, and marks for the rows that a score beats by more than chance.",
    name="--format",
)
STAND_INS = Parameter(
    help="Use data that stand in for published data where these are only on the Hugging Face hub, "
    "such as nli-sample for all-nli. The page says so."
)


def for_the_list(as_json: bool) -> None:
    """Refuses --json (`LIST_JSON`) where a command does more than list what there is."""
    if as_json:
        raise InputError(
            "--json is for the list, which the command prints without other words; leave it out"
        )


def key_values(form: str) -> Parameter:
    """An option with the type {key: value}, from words such as "sentence=body".

    `form` shows how the words are written.
    """

    def read(hint: object, tokens: Sequence[Token] | Mapping[str, object]) -> dict[str, str]:
        if isinstance(tokens, Mapping):
            # They are those of --option.key value.
            raise ValueError(f"{', '.join(tokens)}: write {form}.")
        values = {}
        for token in tokens:
            key, _, value = token.value.partition("=")
            if not key or not value:
                raise ValueError(f"{token.value}: write {form}.")
            values[key] = value
        return values

    metavar = f"{form.partition(',')[0]}..."
    return Parameter(
        converter=read, accepts_keys=False, n_tokens=-1, consume_multiple=1, metavar=metavar
    )


PAIRS = key_values("FIELD=COLUMN, such as sentence=body")
COLUMN = (
    "The column that holds the sentence, such as sentence=body. Unset: a column with a usual name."
)
COLUMNS = Parameter.combine(PAIRS, Parameter(help=COLUMN))


def within(least: float, most: float) -> Parameter:
    """An option whose value, a finite number, is `least` or more and `most` or less."""

    def check(hint: object, value: float | None) -> None:
        if value is None:
            return
        if not least <= value <= most:
            raise ValueError(f"A number from {least:,g} to {most:,g} is needed.")

    return Parameter(validator=check)


def labels(encoders: Sequence[str]) -> list[str]:
    """A short label for each encoder: the name of its folder or run.

    If two labels would be equal, they are the whole paths.

    >>> labels(["models/bert-tiny", "runs/demo/encoder"])
    ['bert-tiny', 'demo']
    >>> labels(["x/run/encoder", "y/run/encoder"])
    ['x/run/encoder', 'y/run/encoder']
    """
    if not encoders:
        raise InputError("no encoder: name at least one folder or hub name")
    short = [_short_name(Path(encoder).resolve()) for encoder in encoders]
    result = []
    for label, whole in zip(short, encoders, strict=True):
        if short.count(label) == 1:
            result.append(label)
        else:
            result.append(whole)
    return result


def _short_name(path: Path) -> str:
    """The name of a run in the place of that of its folder "encoder"."""
    if path.name == "encoder" and path.parent.name:
        return path.parent.name
    return path.name

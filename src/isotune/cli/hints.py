"""What the command line adds to an error of the library: what lists all names of a kind."""

from isotune.errors import InputError, printable

# What lists all names of a kind, by the first word for the kind.
LISTS = {
    "command": "isotune --help",
    "dataset": "isotune datasets",
    "file": "isotune datasets",
    "method": "isotune train --help",
    "option": "isotune train --method NAME --help",
    "recipe": "isotune recipes",
    "table": "isotune reproduce",
    "task": "docs/evaluation.md",
}
# The names of a kind stand in the error itself if they are no more.
FEW = 12


def error_text(error: InputError) -> str:
    """The error's message; in the place of many names stands what lists them."""
    name = error.unknown_name
    if name is None or len(name.allowed) <= FEW:
        return str(error)
    kind = name.kind.split()[0]
    if kind not in LISTS:
        return str(error)
    return printable(f"{name.question} {LISTS[kind]} lists all{name.advice}")

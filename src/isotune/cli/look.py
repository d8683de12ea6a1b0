"""`isotune look`: what is in a file before anybody trains, and which commands fit."""

from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import JSON, SOURCES, Name

FILES = Parameter(help=f"What to look at: {SOURCES}.", required=True)
MODEL = (
    "The encoder that counts the tokens of texts, and that the commands start from. Its weights "
    "are not loaded. Unset: no tokens are counted."
)


def look(
    *files: Annotated[Name, FILES],
    model: Annotated[Name | None, Parameter(help=MODEL, metavar="NAME")] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Of each file: its rows, blank and repeated ones; the scripts of its letters; and what each
    column holds, with the median of the lengths of texts, and in parentheses what 5 % and 95 % of
    them stay below. Below that are the commands that fit, the best first. Nothing is trained.

    All rows are counted, and the first 100,000 are looked at.
    """
    from dataclasses import asdict

    from isotune.cli.tables import print_json
    from isotune.recipes.look import look as look_at

    looks = []
    for number, file in enumerate(files):
        found = look_at(file, model)
        if as_json:
            looks.append(asdict(found))
            continue
        if number:
            print()
        print(found)
    if as_json:
        print_json(looks)

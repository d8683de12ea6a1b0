"""A quick answer to a mistyped option.

The parser would refuse the option too, but it needs cyclopts and, for `isotune train`, the pydantic models of all
options. Their import takes ten times longer than all that is done here, where the names of the options are read from
source text. A name that is read by mistake does no harm: the parser refuses it later.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from isotune.errors import InputError

RUN_OPTIONS = ("model", "dev", "tasks", "columns", "seed")  # options of train that are fields of the recipe itself

# An option of a command's function; the other parameters stand before a line that begins with a star. The only name of
# one letter is given as -k.
_PARAMETER = re.compile(r"^ +(\w{2,}): Annotated\[", re.MULTILINE)
_STAR = re.compile(r"^ +\*", re.MULTILINE)
_FIELD = re.compile(r"^    ([a-z]\w*): (?!ClassVar)(bool\b|)", re.MULTILINE)  # of an option model
_OPTION_MODELS = ("encoder/options.py", "recipes/training.py", "methods/options/*.py")


def option_names(command: str) -> set[str]:
    """The options of a command, such as batch_size and no_projection; for train, those of all methods."""
    package = Path(__file__).parents[1]
    _, *signature = _STAR.split((package / "cli" / f"{command}.py").read_text("utf-8"), maxsplit=1)
    names = {"help", "version", *_PARAMETER.findall("".join(signature))}
    if command == "train":
        names.update(RUN_OPTIONS)
        for path in (path for pattern in _OPTION_MODELS for path in package.glob(pattern)):
            models = path.read_text("utf-8")
            for name, is_bool in _FIELD.findall(models):
                names.update([name, f"no_{name}"] if is_bool else [name])
    return names


def given_options(words: Sequence[str]) -> dict[str, str]:
    """The options among the words of a command line, without their values, as {"batch_size": "--batch-size"}."""
    options = [word.partition("=")[0] for word in takewhile(lambda word: word != "--", words) if word.startswith("--")]
    return {option[2:].replace("-", "_"): option for option in options}


def refuse_mistyped(command: str, words: Sequence[str]) -> None:
    """Refuses an option that the command does not have, and names the most similar option if that is near."""
    names = option_names(command)
    for name, option in given_options(words).items():
        if name not in names:
            similar = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.65)
            hint = f" Did you mean --{similar[0].replace('_', '-')}?" if similar else ""
            raise InputError(f"Unknown option: {option}.{hint} See isotune {command} --help")

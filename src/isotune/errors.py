"""The error for bad input.

Bad input raises `InputError` everywhere: its message says what was got, what is allowed and what to do. The command
line prints the message and exits with 2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING
from unicodedata import category

if TYPE_CHECKING:
    from pydantic import ValidationError


class InputError(ValueError):
    r"""Input that can't be used. The message is for the person who gave the input.

    It may quote a damaged file or another library: its lines become one, and what can't be printed becomes an escape.

    >>> print(InputError("the file is damaged:\n  \x1b[0m"))
    the file is damaged: \x1b[0m
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(" ".join(part.strip() for part in message.splitlines())))


def printable(text: str) -> str:
    r"""The text with escapes for what could steer a terminal; the joiners and spaces of any script stay.

    >>> print(printable("a\x1b[2J\nb"))
    a\x1b[2J\nb
    """
    return "".join(
        sign
        if sign.isprintable() or sign in "\u200c\u200d" or category(sign) == "Zs"
        else repr(sign)[1:-1]
        for sign in text
    )


class UselessVectors(InputError):
    """Sentence vectors that can't be scored: they are not finite, or all pairs have the same cosine."""


@contextmanager
def telling(
    kinds: type[Exception] | tuple[type[Exception], ...], problem: str, advice: str = ""
) -> Iterator[None]:
    """Turns errors of these kinds into one line: the problem, the reason in parentheses, and the advice."""
    try:
        yield
    except InputError:
        raise
    except kinds as error:
        reason = getattr(error, "strerror", None) or (
            repr(error) if isinstance(error, KeyError) else str(error)
        )
        reason = reason or type(error).__name__
        raise InputError(f"{problem} ({' '.join(reason.split())[:300]}){advice}") from error


# What other tools call an option or a command, and isotune's name.
SYNONYMS = {
    **{
        "bs": "batch-size",
        "lr": "learning-rate",
        "wd": "weight-decay",
        "max-seq-length": "max-length",
    },
    **{
        "max-steps": "steps",
        "num-train-epochs": "epochs",
        "o": "out",
        "output": "out",
        "output-dir": "out",
    },
    **{
        "top": "k",
        "top-k": "k",
        "limit": "k",
        "filter": "where",
        "fit": "train",
        "finetune": "train",
    },
    **{
        "fine-tune": "train",
        "embed": "encode",
        "test": "evaluate",
        "query": "search",
        "annotate": "label",
    },
}


LISTS = {  # what lists all names of a kind, by the first word for the kind
    **{"recipe": "isotune recipes", "dataset": "isotune datasets", "file": "isotune datasets"},
    **{"command": "isotune --help", "task": "docs/evaluation.md", "table": "isotune reproduce"},
    **{"method": "isotune train --help", "option": "isotune train --method NAME --help"},
}
FEW = 12  # names of a kind that an error lists


def nearest(got: str, allowed: Iterable[str]) -> list[str]:
    """The names that a person may mean: what other tools call it, or at most three similar ones, in any case."""
    plain = {name.lower().strip("-").replace("_", "-"): name for name in allowed}
    word = got.lower().strip("-").replace("_", "-")
    similar = (
        [meant]
        if (meant := SYNONYMS.get(word)) in plain
        else difflib.get_close_matches(word, plain)
    )
    return [plain[name] for name in similar[: 1 if word in plain else None]]


def unknown(kind: str, got: str, allowed: Iterable[str]) -> InputError:
    """Makes the error for a name that is not allowed, with similar names, and all names or the command that lists them.

    >>> print(unknown("method", "simsce", ["consert", "simcse"]))
    unknown method 'simsce': did you mean 'simcse'? Known: consert, simcse
    """
    names, command = sorted(allowed), LISTS.get(kind.split()[0])
    meant = " or ".join(map(repr, nearest(got, names)))
    known = f"{command} lists all" if command and len(names) > FEW else f"Known: {', '.join(names)}"
    return InputError(
        f"unknown {kind} {got!r}{f': did you mean {meant}?' if meant else '.'} {known}"
    )


def counted(number: int, noun: str) -> str:
    """A number with its noun: 0 rows, 1 row, 2,000 queries."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def require_extra(extra: str, *modules: str) -> None:
    """Checks that the modules of an extra of isotune are installed; imports none of them."""
    if missing := [module for module in modules if find_spec(module) is None]:
        raise InputError(f"not installed: {', '.join(missing)}; pip install 'isotune[{extra}]'")


def invalid(name: str, error: ValidationError, unnamed: str = "") -> InputError:
    """Makes the error for a table in which pydantic finds problems; of the list `unnamed`, no number is told."""
    problems = []
    for problem in error.errors(include_url=False):
        loc = (
            problem["loc"][2:]
            if problem["loc"][:1] == (unnamed,) and len(problem["loc"]) > 1
            else problem["loc"]
        )
        place = [str(part + 1 if isinstance(part, int) else part) for part in loc]
        got = (
            ""
            if isinstance(problem["input"], dict | list | tuple)
            else f" (got {problem['input']!r})"
        )
        problems.append(": ".join([*place, problem["msg"].removeprefix("Value error, ") + got]))
    return InputError(
        f"{name}: {'; '.join(dict.fromkeys(problems))}"
    )  # two stages may have one option

"""The error for bad input.

Bad input raises `InputError` everywhere: its message says what was got, what is allowed and what to
do. The command line prints the message and exits with 2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING
from unicodedata import category

if TYPE_CHECKING:
    from pydantic import ValidationError

# The joiners are no printable characters to Python, and scripts such as Persian need them.
JOINERS = "\u200c\u200d"
# An error quotes no more characters of the reason that another library gives.
LONGEST_REASON = 300
# As many names stand in an error or a line of the log, which counts the others.
FEW = 5


@dataclass(frozen=True)
class UnknownName:
    """A name that is not allowed, as an error tells it."""

    kind: str
    """What the name is a name of, such as "recipe" or "split of stsb"."""
    question: str
    """What was got, and the similar names."""
    allowed: tuple[str, ...]
    """All names, sorted."""
    advice: str
    """What follows the names."""


class InputError(ValueError):
    r"""Input that can't be used. The message is for the person who gave the input.

    The message may quote a damaged file or another library: its lines become one, and what can't be
    printed becomes an escape.

    >>> print(InputError("the file is damaged:\n  \x1b[0m"))
    the file is damaged: \x1b[0m
    """

    unknown_name: UnknownName | None = None
    """The name that is not allowed, if this is what is wrong."""

    def __init__(self, message: str) -> None:
        line = " ".join(part.strip() for part in message.splitlines())
        super().__init__(printable(line))


class UselessVectors(InputError):
    """Sentence vectors that can't be scored: not finite, or with the same cosine for all pairs."""


def printable(text: str) -> str:
    r"""The text with escapes for what could steer a terminal.

    The joiners and spaces of any script stay.

    >>> print(printable("a\x1b[2J\nb"))
    a\x1b[2J\nb
    """
    return "".join(map(_printable_sign, text))


def _printable_sign(sign: str) -> str:
    if sign.isprintable() or sign in JOINERS or category(sign) == "Zs":
        return sign
    return repr(sign)[1:-1]


@contextmanager
def as_input_error(
    kinds: type[Exception] | tuple[type[Exception], ...], problem: str, advice: str = ""
) -> Iterator[None]:
    """Turns errors of these kinds into one line: the problem, the reason in parentheses, advice."""
    try:
        yield
    except InputError:
        raise
    except kinds as error:
        raise InputError(f"{problem} ({_reason(error)}){advice}") from error


def _reason(error: Exception) -> str:
    """What an error of another library says, in one short line."""
    reason = getattr(error, "strerror", None)
    if not reason and isinstance(error, KeyError):
        reason = repr(error)
    if not reason:
        reason = str(error) or type(error).__name__
    return " ".join(reason.split())[:LONGEST_REASON]


def nearest(got: str, allowed: Iterable[str], synonyms: Mapping[str, str] = {}) -> list[str]:
    """The names that a person may mean.

    They are the synonym's name, or the name itself in other letters, or at most three similar ones.
    Capitals, hyphens and underscores make no difference. `synonyms` has names of other tools as its
    keys, in small letters and with hyphens, and the names here as its values.
    """
    names = {_plain(name): name for name in allowed}
    word = _plain(got)
    synonym = _plain(synonyms.get(word, word))
    if synonym in names:
        return [names[synonym]]
    if word in names:
        return [names[word]]
    return [names[similar] for similar in difflib.get_close_matches(word, names)]


def _plain(name: str) -> str:
    return name.lower().strip("-").replace("_", "-")


def unknown(
    kind: str,
    got: str,
    allowed: Iterable[str],
    advice: str = "",
    synonyms: Mapping[str, str] = {},
) -> InputError:
    """Makes the error for a name that is not allowed, with similar names and all names.

    >>> print(unknown("method", "simsce", ["consert", "simcse"]))
    unknown method 'simsce': did you mean 'simcse'? Known: consert, simcse
    """
    names = tuple(sorted(allowed))
    similar = " or ".join(map(repr, nearest(got, names, synonyms)))
    question = f"unknown {kind} {got!r}."
    if similar:
        question = f"unknown {kind} {got!r}: did you mean {similar}?"
    error = InputError(f"{question} Known: {', '.join(names)}{advice}")
    error.unknown_name = UnknownName(kind, question, names, advice)
    return error


def counted(number: int, noun: str) -> str:
    """A number with its noun: 0 rows, 1 row, 2,000 queries."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}s"


def first_names(names: Sequence[str]) -> str:
    """The first names in quotes, and how many more there are."""
    first = ", ".join(repr(name) for name in names[:FEW])
    if len(names) <= FEW:
        return first
    return f"{first} and {len(names) - FEW:,} more"


def require_extra(extra: str, *modules: str) -> None:
    """Checks that the modules of an extra of isotune are installed; imports none of them."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise InputError(f"not installed: {', '.join(missing)}; pip install 'isotune[{extra}]'")


def invalid(name: str, error: ValidationError, unnamed: str = "") -> InputError:
    """Makes the error for a table in which pydantic finds problems.

    Errors in the list `unnamed` are reported without their index. There may be several alike, such
    as two stages with the same wrong option; one of them is reported.
    """
    problems: list[str] = []
    found = error.errors(include_url=False)
    places = [problem["loc"] for problem in found]
    for problem in found:
        # pydantic does not count items that it has refused.
        if problem["type"] == "too_short" and _has_inner(problem["loc"], places):
            continue
        place = list(problem["loc"])
        if len(place) > 1 and place[0] == unnamed:
            place = place[2:]
        message = problem["msg"].removeprefix("Value error, ")
        if not isinstance(problem["input"], dict | list | tuple):
            message += f" (got {problem['input']!r:.200})"
        line = ": ".join([*map(_from_one, place), message])
        if line not in problems:
            problems.append(line)
    return InputError(f"{name}: {'; '.join(problems)}")


def _has_inner(outer: tuple[int | str, ...], places: Iterable[tuple[int | str, ...]]) -> bool:
    """Whether one of the places lies within the outer one."""
    depth = len(outer)
    return any(len(place) > depth and place[:depth] == outer for place in places)


def _from_one(part: int | str) -> str:
    """A key of a table, or the place in a list counted from one."""
    if isinstance(part, int):
        return str(part + 1)
    return part

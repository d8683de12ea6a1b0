"""The error for bad input.

Bad input raises `InputError` everywhere: its message says what was got, what is allowed and what to do. The command
line prints the message and exits with 2; nothing else in the package calls `sys.exit`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib.util import find_spec


class InputError(ValueError):
    """Input that can't be used. The message is one line, for the person who gave the input."""


def unknown(kind: str, got: str, allowed: Iterable[str]) -> InputError:
    """Makes the error for a name that is not allowed, with the most similar name that is.

    >>> print(unknown("method", "simsce", ["consert", "simcse"]))
    unknown method 'simsce': did you mean 'simcse'? Known: consert, simcse
    """
    names = sorted(allowed)
    similar = difflib.get_close_matches(got, names, n=1)
    hint = f": did you mean {similar[0]!r}?" if similar else "."
    return InputError(f"unknown {kind} {got!r}{hint} Known: {', '.join(names)}")


def require_extra(extra: str, *modules: str) -> None:
    """Checks that the modules of an extra of isotune are installed; imports none of them.

    Raises:
        InputError: a module is missing; the message says the pip line.
    """
    if missing := [module for module in modules if find_spec(module) is None]:
        raise InputError(f"not installed: {', '.join(missing)}; pip install 'isotune[{extra}]'")

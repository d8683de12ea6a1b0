"""What a user did wrong, in one line.

Everything that bad input can cause raises `InputError`: the message says what was got, what is allowed and what to
do. The command line prints it and exits with 2; nothing else in the package calls `sys.exit`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Input that can't be used; its text is one line made for the person who gave it."""


def unknown(kind: str, got: str, allowed: Iterable[str]) -> InputError:
    """The error for a name that isn't in a table, with the nearest one that is.

    >>> print(unknown("method", "simsce", ["consert", "simcse"]))
    unknown method 'simsce': did you mean 'simcse'? Known: consert, simcse
    """
    names = sorted(allowed)
    near = difflib.get_close_matches(got, names, n=1)
    hint = f": did you mean {near[0]!r}?" if near else "."
    return InputError(f"unknown {kind} {got!r}{hint} Known: {', '.join(names)}")

"""How a command's function gets its arguments from the command line, by cyclopts.

The function's parameters are the command's arguments and options; its docstring is the command's help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from cyclopts import App, Argument, CycloptsError, MissingArgumentError, Parameter, UnusedCliTokensError

import isotune
from isotune.errors import InputError


def call(name: str, usage: str, function: Callable[..., object], words: Sequence[str]) -> int:
    """Calls a command's function with the words that follow the command's name; returns the exit code."""
    app = App(
        name=name,
        usage=f"Usage: {name} {usage}".rstrip(),
        help="\n\n".join(" ".join(text.split()) for text in (function.__doc__ or "").split("\n\n")).strip(),
        version=lambda: isotune.__version__,
        help_format="plaintext",
        default_parameter=Parameter(negative=(), show_default=lambda value: str(value) if value else None),
        suppress_keyboard_interrupt=False,
    )
    app.default(function)
    for flag in (*app.help_flags, *app.version_flags):
        app[flag].show = False
    if "-" in words and "--" not in words:
        # To cyclopts a lone hyphen, which means standard input, is an option unless it stands after "--".
        words = [*(word for word in words if word != "-"), "--", "-"]
    with one_line_errors(name):
        result = app(words, exit_on_error=False, print_error=False, verbose=False, result_action="return_value")
    return result if isinstance(result, int) else 0


@contextmanager
def one_line_errors(name: str) -> Iterator[None]:
    """Turns an error of cyclopts about the command of this name into an `InputError`."""
    try:
        yield
    except CycloptsError as error:
        error.verbose = False  # else the message is preceded by the function's signature
        match error:
            case UnusedCliTokensError(unused_tokens=[word, *_]):
                message = f"Unexpected argument {word!r}."
            case MissingArgumentError(argument=Argument(index=int(), name=argument)):
                message = f"{argument} is missing."
            case _:
                message = str(error)
        raise InputError(f"{message} See {name} --help") from error

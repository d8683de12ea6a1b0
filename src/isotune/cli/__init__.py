"""The command line: `main`, and one module a command.

Importing this module costs nothing. All the rest is imported inside `main`, where a Ctrl-C is caught.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code: 0, 2 for input that can't be used, 128 + a signal that stopped it."""
    try:
        from isotune.cli.app import run

        code = run(list(sys.argv[1:] if arguments is None else arguments))
        print(end="", flush=True)  # now, while what goes wrong with it can still be told
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except SystemExit:  # rich's, when the reader of its output has gone
        return 128 + signal.SIGPIPE
    except OSError as error:
        _flush_or_discard()
        if isinstance(error, BrokenPipeError):
            return 128 + signal.SIGPIPE
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror or error}", file=sys.stderr)
        return 2
    return code


def _flush_or_discard() -> None:
    """Sees to it that Python's own flush at exit won't fail, and say so, if this one does."""
    try:
        print(end="", flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

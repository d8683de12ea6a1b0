"""The command line: `main`, and one module for each command.

This module imports the standard library only. Everything else is imported inside `main`, where Ctrl-C is caught.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code.

    Returns:
        0 if all went well; 1 if a run of `study` or `reproduce` failed, or `doctor` found the encoder wrong; 2 for
        wrong input, a file that can't be read or written, or a training that failed; 128 + the number of the signal
        that stopped the command.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what the terminal can't show, as on standard error
    try:
        from isotune.cli.app import run

        code = run(list(sys.argv[1:] if arguments is None else arguments))
        print(end="", flush=True)  # here, so that a failure to write is caught below
    except KeyboardInterrupt:
        gc.freeze()  # so that Python ends in 0.2 s of processor time, and not in 1.4 s, once torch is loaded
        return 128 + signal.SIGINT
    except SystemExit:  # rich raises it when the pipe that it writes to is closed
        return 128 + signal.SIGPIPE
    except OSError as error:
        _flush_or_discard()
        if isinstance(error, BrokenPipeError):
            return 128 + signal.SIGPIPE
        where = f"{error.filename}: " if error.filename else ""
        with suppress(OSError):  # a terminal that has been closed
            print(f"error: {where}{error.strerror or error}", file=sys.stderr)
        return 2
    except Exception as error:
        if not _interrupted(error):
            raise
        return 128 + signal.SIGINT
    return code


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C caused an exception: pydantic wraps what is raised in a function that its compiled code calls."""
    return error is not None and (isinstance(error, KeyboardInterrupt) or _interrupted(error.__cause__))


def _flush_or_discard() -> None:
    """Discards unwritten output if it cannot be written, so that Python does not fail on it again at exit."""
    try:
        print(end="", flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

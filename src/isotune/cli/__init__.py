"""The command line: `main`, and one module for each command.

This module imports the standard library only. Everything else is imported inside `main`, where Ctrl-C is caught.
"""

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from types import FrameType

PIPE_CLOSED = 128 + 13  # 13 is SIGPIPE, which Windows does not have
YOUNG_OBJECTS = 10_000  # new objects after which Python looks for garbage among them


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; AGENTS.md says what the codes mean."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(
            errors="backslashreplace"
        )  # what the terminal can't show, as on standard error
    interrupts: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        signal.default_int_handler(number, frame)

    # Compiled code (pydantic, safetensors) turns Ctrl-C in a function that it calls into an error of its own.
    listens = (
        before is signal.default_int_handler
        and threading.current_thread() is threading.main_thread()
    )
    if listens:
        signal.signal(signal.SIGINT, interrupt)
    if arguments is None:  # the process is the command's alone
        # torch and transformers make a million objects that stay: to look for garbage among them takes 0.5 s while they
        # are imported, and 1 s when Python ends.
        gc.set_threshold(YOUNG_OBJECTS)
        atexit.register(gc.freeze)
    try:
        from isotune.cli.app import run

        code = run(list(sys.argv[1:] if arguments is None else arguments))
        print(end="", flush=True)  # here, so that a failure to write is caught below
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except SystemExit:  # rich raises it when the pipe that it writes to is closed
        return PIPE_CLOSED
    except Exception as error:
        if interrupts:
            return 128 + signal.SIGINT
        return _failed(error)
    finally:
        if listens:
            signal.signal(signal.SIGINT, before)
    return code


def _failed(error: Exception) -> int:
    """Says in one line what is wrong, and returns the exit code; other errors than those of input are raised again."""
    from isotune.errors import InputError

    if isinstance(error, InputError):
        print(f"error: {error}", file=sys.stderr)
        return 2
    if isinstance(error, OSError):
        try:
            print(end="", flush=True)
        except (
            OSError
        ):  # what can't be written is discarded, so that Python does not fail on it again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return PIPE_CLOSED
        where = f"{error.filename}: " if error.filename else ""
        with suppress(OSError):  # a terminal that has been closed
            print(f"error: {where}{error.strerror or error}", file=sys.stderr)
        return 2
    raise error

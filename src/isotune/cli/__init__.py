"""The command line: `main`, and one module for each command.

This module imports the standard library only. Everything else is imported inside `main`, where
Ctrl-C is caught.
"""

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from types import FrameType

# 13 is SIGPIPE, which Windows does not have.
PIPE_CLOSED = 128 + 13
# Python looks for garbage among new objects when there are so many of them.
YOUNG_OBJECTS = 10_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; AGENTS.md says what the codes mean."""
    if arguments is None:
        # The process is the command's alone.
        _open_closed_streams()
        _seldom_collect_garbage()
        arguments = sys.argv[1:]
    if isinstance(sys.stdout, TextIOWrapper):
        # Standard output escapes what the terminal can't show, as standard error does.
        sys.stdout.reconfigure(errors="backslashreplace")
    with _record_interrupts() as interrupts:
        try:
            from isotune.cli.app import run

            code = run(list(arguments))
            # The output is flushed here, so that a failure to write is caught below.
            print(end="", flush=True)
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        except SystemExit:
            # rich raises it when the pipe that it writes to is closed.
            return PIPE_CLOSED
        except Exception as error:
            if interrupts:
                return 128 + signal.SIGINT
            return _report_error(error)
        finally:
            _discard_unwritten()
        return code


def _open_closed_streams() -> None:
    """Opens the null device in the place of standard streams that are closed.

    Otherwise a file that is opened later would get the number of the closed stream, and the
    messages of compiled code with it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The new file gets the lowest free number, which is the stream's own.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _seldom_collect_garbage() -> None:
    """Saves the time to look for garbage among the million objects of torch and transformers.

    All these objects stay. The time is 0.5 s while they are imported, and 1 s when Python ends.
    """
    gc.set_threshold(YOUNG_OBJECTS)
    atexit.register(gc.freeze)


@contextmanager
def _record_interrupts() -> Iterator[list[int]]:
    """Gives a list that is empty until Ctrl-C is pressed.

    Compiled code (pydantic, safetensors) turns Ctrl-C in a function that it calls into an error of
    its own.
    """
    interrupts: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        signal.default_int_handler(number, frame)

    in_main_thread = threading.current_thread() is threading.main_thread()
    if before is not signal.default_int_handler or not in_main_thread:
        yield interrupts
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


def _report_error(error: Exception) -> int:
    """Says in one line what is wrong, and returns the exit code.

    An error that is neither of input nor of the system is raised again.
    """
    from isotune.cli.hints import error_text
    from isotune.errors import InputError

    if isinstance(error, BrokenPipeError):
        return PIPE_CLOSED
    if isinstance(error, InputError):
        message = error_text(error)
    elif isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        message = f"{where}{error.strerror or error}"
    else:
        raise error
    # Standard error may be a full disk, or a terminal that has been closed.
    with suppress(OSError):
        print(f"error: {message}", file=sys.stderr)
    return 2


def _discard_unwritten() -> None:
    """Discards what the standard streams can't write; Python would fail on it again at its end."""
    # A program without a console that calls `main` has no streams.
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

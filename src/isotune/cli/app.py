"""The table of commands, and how one is run. No command's module loads torch before it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cyclopts import (
    App,
    Argument,
    CycloptsError,
    MissingArgumentError,
    Parameter,
    UnknownOptionError,
    UnusedCliTokensError,
)
from rich.console import Console

from isotune.cli.analyse import analyse
from isotune.cli.datasets import datasets
from isotune.cli.doctor import doctor
from isotune.cli.encode import encode
from isotune.cli.evaluate import evaluate
from isotune.cli.recipes import recipes
from isotune.cli.report import report
from isotune.cli.reproduce import reproduce
from isotune.cli.similarity import similarity
from isotune.cli.study import study
from isotune.cli.train import train_command
from isotune.errors import InputError
from isotune.methods import METHODS


class Command(NamedTuple):
    """A command's function, and the words that follow its name."""

    function: Callable[..., object]
    usage: str = ""


def run(arguments: Sequence[str]) -> int:
    """Runs the command that the arguments name; returns its exit code, or 2 after a line on what is wrong with them."""
    try:
        commands = {
            "train": Command(train_command(arguments[1:] if arguments[:1] == ["train"] else ()), "TEXT... [OPTIONS]"),
            "evaluate": Command(evaluate, "ENCODER... [OPTIONS]"),
            "report": Command(report, "DIR"),
            "analyse": Command(analyse, "[NAME ENCODER...] [OPTIONS]"),
            "study": Command(study, "[NAME] [OPTIONS]"),
            "reproduce": Command(reproduce, "[NAME] [OPTIONS]"),
            "encode": Command(encode, "ENCODER FILE [OPTIONS]"),
            "similarity": Command(similarity, "ENCODER FIRST SECOND"),
            "recipes": Command(recipes),
            "datasets": Command(datasets),
            "doctor": Command(doctor),
        }
        app = App(
            name="isotune",
            help="From a pretrained language model to a sentence encoder, by contrastive learning.",
            version=_version,
            help_format="plaintext",
            default_parameter=Parameter(negative=(), show_default=lambda value: str(value) if value else None),
            suppress_keyboard_interrupt=False,
        )
        for place, (name, command) in enumerate(commands.items()):
            usage = f"Usage: isotune {name} {command.usage}".rstrip()
            app.command(command.function, name=name, usage=usage, sort_key=place)
        if not arguments:
            app.help_print(console=Console(stderr=True))
            return 2
        if "-" in arguments and "--" not in arguments:
            # To cyclopts a lone hyphen, standard input, is an option, but not behind the end of options.
            arguments = [*(word for word in arguments if word != "-"), "--", "-"]
        result = app(arguments, exit_on_error=False, print_error=False, verbose=False, result_action="return_value")
    except CycloptsError as error:
        command_line = " ".join(["isotune", *(error.command_chain or ())])
        return _fail(f"{_message(error)} See {command_line} --help")
    except InputError as error:
        return _fail(str(error))
    return result if isinstance(result, int) else 0


def _message(error: CycloptsError) -> str:
    """What cyclopts says, in one line; clearer where it is about what this command line has no place for."""
    match error:
        case UnusedCliTokensError(unused_tokens=[word, *_]):
            return f"Unexpected argument {word!r}."
        case MissingArgumentError(argument=Argument(index=int(), name=name)):
            return f"{name} is missing."
        case UnknownOptionError(token=token):
            flag = token.keyword or token.value
            name = flag.lstrip("-").replace("-", "_")
            if owners := [method for method, entry in METHODS.items() if name in entry.options.model_fields]:
                return f"{flag} is an option of another method: --method {' or '.join(owners)}."
    return str(error)


def _fail(message: str) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _version() -> str:
    from importlib.metadata import version

    return version("isotune")

"""The command line: a table from command to function. No command's module loads torch before it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from cyclopts import App, CycloptsError

from isotune.cli.datasets import datasets
from isotune.cli.doctor import doctor
from isotune.cli.encode import encode
from isotune.cli.evaluate import evaluate
from isotune.cli.recipes import recipes
from isotune.cli.similarity import similarity
from isotune.cli.train import train_command
from isotune.errors import InputError

COMMANDS: dict[str, Callable[..., object]] = {
    "evaluate": evaluate,
    "encode": encode,
    "similarity": similarity,
    "recipes": recipes,
    "datasets": datasets,
    "doctor": doctor,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code: 0, 2 for input that can't be used, 128 + a signal that stopped it."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        app = App(
            name="isotune",
            help="From a pretrained language model to a sentence encoder, by contrastive learning.",
            version=_version,
        )
        app.command(train_command(arguments), name="train")
        for name, function in COMMANDS.items():
            app.command(function, name=name)
        result = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except (InputError, CycloptsError) as error:
        return _fail(" ".join(str(error).split()))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}")
    except KeyboardInterrupt:
        return 130
    return result if isinstance(result, int) else 0


def _fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2


def _version() -> str:
    from importlib.metadata import version

    return version("isotune")

"""How a command's function gets its arguments from the command line, by cyclopts.

The function's parameters are the command's arguments and options; its docstring follows the summary in the help.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any

from cyclopts import App, Argument, CycloptsError, Group, Parameter
from cyclopts.exceptions import MissingArgumentError, UnknownOptionError, UnusedCliTokensError

import isotune
from isotune.console import PlainConsole
from isotune.errors import InputError, nearest

HELP_FLAGS = {"--help", "-h"}
PLUGIN = (
    "A Python file that adds to isotune, such as a method of your own. It is run before the other options are read. "
    "The option can be given several times."
)
DEVICE = "The device that computes: cpu, cuda, cuda:1 or mps. Unset: as ISOTUNE_DEVICE says, or else a GPU, or the CPU."


def call(command: str, words: Sequence[str], known: Mapping[str, tuple[str, str]]) -> int:
    """Loads the plugins among the words, on which options can depend, and calls the command; returns the exit code.

    A command that is not among the `known` ones (name -> summary, example) installs the completion of these.
    """
    app = App(
        name="isotune",
        version=lambda: isotune.__version__,
        help_format="plaintext",
        group_parameters=Group.create_default_parameters("Options"),
        default_parameter=Parameter(
            negative=(), show_default=lambda value: str(value) if value else None
        ),
        suppress_keyboard_interrupt=False,
        exit_on_error=False,
        print_error=False,
        verbose=False,
        result_action="return_value",
    )
    app.meta.help_flags = (
        app.meta.version_flags
    ) = ()  # `app` answers them, when the plugins are loaded
    app.meta.suppress_keyboard_interrupt = False

    @app.meta.default
    def load_plugins(
        *words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        plugin: Annotated[
            tuple[Path, ...], Parameter(help=PLUGIN, metavar="FILE.py", group="Plugins")
        ] = (),
        device: Annotated[str | None, Parameter(help=DEVICE, group="Computing")] = None,
    ) -> Any:
        for path in plugin:
            isotune.load_plugin(path)
        if device:
            os.environ["ISOTUNE_DEVICE"] = device
        for name, (summary, example) in known.items():
            function = resolve_name(
                f"isotune.cli.{name}:{'train_command' if name == 'train' else name}"
            )
            function = function(words) if name == "train" else function
            paragraphs = [" ".join(part.split()) for part in (function.__doc__ or "").split("\n\n")]
            text = "\n\n".join(
                [summary, f"For example:\n  isotune {name} {example}", *paragraphs]
            ).strip()
            app.command(function, name=name, help=text)
            app[
                name
            ].usage = f"Usage: isotune {name} {_usage(app[name].assemble_argument_collection())}"
        if command not in known:
            app.register_install_completion_command(command)
        if HELP_FLAGS & {*takewhile(lambda word: word != "--", words)}:
            # The help comes at once, because to parse the other words takes as long again.
            return app.help_print([command], console=PlainConsole())
        return app([command, *words])

    if "-" in words and "--" not in words:
        # To cyclopts a lone hyphen, which means standard input, is an option unless it stands after "--".
        words = [*(word for word in words if word != "-"), "--", "-"]
    try:
        result = app.meta(words)
    except CycloptsError as error:
        raise _one_line(error, command, words) from error
    return result if isinstance(result, int) else 0


def _usage(arguments: Iterable[Argument]) -> str:
    """What follows the command's name: the arguments in capitals, and the options without a default."""
    words = []
    for argument in (
        argument for argument in arguments if argument.required or argument.index is not None
    ):
        several = "..." if argument.field_info.kind is argument.field_info.VAR_POSITIONAL else ""
        metavar = f" {argument.parameter.metavar}" if argument.index is None else ""
        word = f"{argument.name}{metavar}" if metavar else f"{argument.name.upper()}{several}"
        words.append(word if argument.required else f"[{word}]")
    return " ".join([*words, "[OPTIONS]"])


def _one_line(error: CycloptsError, command: str, words: Sequence[str]) -> InputError:
    error.verbose, error.command_chain = (
        False,
        (),
    )  # else the function's signature and the command stand in the message
    match error:
        case UnknownOptionError(token=token, argument_collection=known):
            option = (token.keyword or token.value).partition("=")[0]
            meant = nearest(
                option,
                [name for argument in known for name in argument.names if name.startswith("-")],
            )
            message = f"Unknown option: {option}.{f' Did you mean {meant[0]}?' if meant else ''}"
            if command == "train":
                from isotune.cli.train import where_option_is

                message = where_option_is(option, words) or message
            elif command == "search":
                message += " A text that begins with a dash stands behind --, after the options."
        case UnusedCliTokensError(unused_tokens=[word, *_]):
            message = f"Unexpected argument {word!r}."
        case MissingArgumentError(argument=Argument(index=int(), name=argument)):
            message = f"{argument} is missing."
        case _:
            message = str(error)
    return InputError(f"{message} See isotune {command} --help")

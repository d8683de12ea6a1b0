"""How a command's function gets its arguments from the command line, by cyclopts.

The function's parameters are the command's arguments and options; its docstring follows the summary
in the help.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, get_args

from cyclopts import App, Argument, ArgumentCollection, CycloptsError, Group, Parameter
from cyclopts.annotations import contains_hint
from cyclopts.exceptions import MissingArgumentError, UnknownOptionError, UnusedCliTokensError

import isotune
from isotune.console import PlainConsole
from isotune.errors import InputError, nearest
from isotune.files import check_can_be_written

PLUGIN = (
    "A Python file that adds to isotune, such as a method of your own. It is run before the other "
    "options are read. The option can be given several times."
)
DEVICE = (
    "The device that computes: cpu, cuda, cuda:1 or mps. Unset: as ISOTUNE_DEVICE says, or else a "
    "GPU, or the CPU."
)
# The options that name a file or folder which a command writes.
OUTPUTS = ("out", "figure", "runs")
# What other tools call a flag. The options of a recipe have their synonyms in the recipes.
SYNONYMS = {
    "filter": "where",
    "limit": "k",
    "o": "out",
    "output": "out",
    "output-dir": "out",
    "top": "k",
    "top-k": "k",
}


def call(command: str, words: Sequence[str], commands: Mapping[str, tuple[str, str]]) -> int:
    """Calls the command and returns its exit code.

    The plugins among the words are loaded first, because options can depend on them. `commands` has
    the summary and the example of each command by its name. A command that is not among them
    installs the completion of all that are.
    """
    app = _new_app()

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
        for name, (summary, example) in commands.items():
            _add_command(app, name, summary, example, words)
        if command not in commands:
            app.register_install_completion_command(command)
        if _ask_for_help(words):
            # The help comes at once, because to parse the other words takes as long again.
            return app.help_print([command], console=PlainConsole())
        function, bound, _ = app.parse_args([command, *words])
        bound.apply_defaults()
        _check_outputs(bound.arguments)
        return function(*bound.args, **bound.kwargs)

    try:
        result = app.meta(_hyphen_last(words))
    except CycloptsError as error:
        raise _as_input_error(error, command, words) from error
    if isinstance(result, int):
        return result
    return 0


def _new_app() -> App:
    """An app without commands, whose errors are raised."""
    app = App(
        name="isotune",
        version=lambda: isotune.__version__,
        help_format="plaintext",
        group_parameters=Group.create_default_parameters("Options"),
        default_parameter=Parameter(negative=(), show_default=_as_default),
        config=_refuse_fractions,
        suppress_keyboard_interrupt=False,
        exit_on_error=False,
        print_error=False,
        verbose=False,
        result_action="return_value",
    )
    # `app` answers the flags for help and the version, when the plugins are loaded.
    app.meta.help_flags = ()
    app.meta.version_flags = ()
    app.meta.suppress_keyboard_interrupt = False
    return app


def _refuse_fractions(app: App, commands: Sequence[str], arguments: ArgumentCollection) -> None:
    """Refuses a fraction where a whole number is needed, which cyclopts would round."""
    for argument in arguments:
        # Of a list, the hint of its elements.
        hints = (argument.hint, *get_args(argument.hint))
        if not any(contains_hint(hint, int) for hint in hints):
            continue
        for token in argument.tokens:
            if "." in token.value:
                raise InputError(f"{argument.name} {token.value}: a whole number is needed")


def _as_default(value: object) -> str | None:
    """A default as the help shows it; None if it shows none."""
    if value:
        return str(value)
    return None


def _add_command(app: App, name: str, summary: str, example: str, words: Sequence[str]) -> None:
    """Adds the function of a command, with its help. The options of `train` depend on the words."""
    function: Callable[..., Any]
    if name == "train":
        function = resolve_name("isotune.cli.train:train_command")(words)
    else:
        function = resolve_name(f"isotune.cli.{name}:{name}")
    paragraphs = [summary, f"For example:\n  isotune {name} {example}"]
    for paragraph in (function.__doc__ or "").split("\n\n"):
        paragraphs.append(" ".join(paragraph.split()))
    app.command(function, name=name, help="\n\n".join(paragraphs).strip())
    app[name].usage = f"Usage: isotune {name} {_usage(app[name].assemble_argument_collection())}"


def _usage(arguments: Iterable[Argument]) -> str:
    """What follows the command's name: arguments in capitals, and options without a default."""
    words = []
    for argument in arguments:
        if argument.index is None:
            if argument.required:
                words.append(f"{argument.name} {argument.parameter.metavar}")
            continue
        word = argument.name.upper()
        if argument.field_info.kind is argument.field_info.VAR_POSITIONAL:
            word += "..."
        if not argument.required:
            word = f"[{word}]"
        words.append(word)
    return " ".join([*words, "[OPTIONS]"])


def _check_outputs(values: Mapping[str, object]) -> None:
    """Refuses an output that can't be written, before the command works for it."""
    for name in OUTPUTS:
        output = values.get(name)
        # Elsewhere than on this machine, the command itself finds out.
        if output is None or "://" in str(output):
            continue
        path = Path(str(output))
        # A folder may have all that the command would write.
        if not path.is_dir():
            check_can_be_written(path)


def _ask_for_help(words: Sequence[str]) -> bool:
    for word in words:
        if word == "--":
            return False
        if word in ("--help", "-h"):
            return True
    return False


def _hyphen_last(words: Sequence[str]) -> list[str]:
    """The words with a lone hyphen, which means standard input, at the end, behind "--".

    Elsewhere it is an option to cyclopts.
    """
    if "-" not in words or "--" in words:
        return list(words)
    return [*(word for word in words if word != "-"), "--", "-"]


def _as_input_error(error: CycloptsError, command: str, words: Sequence[str]) -> InputError:
    # Otherwise the function's signature and the command stand in the message.
    error.verbose = False
    error.command_chain = ()
    match error:
        case UnknownOptionError(token=token, argument_collection=ArgumentCollection() as arguments):
            option = (token.keyword or token.value).partition("=")[0]
            message = _no_option(option, arguments, command, words)
        case UnusedCliTokensError(unused_tokens=[word, *_]):
            message = f"Unexpected argument {word!r}."
        case MissingArgumentError(argument=Argument(index=int(), name=argument)):
            message = f"{argument} is missing."
        case _:
            message = str(error)
    return InputError(f"{message} See isotune {command} --help")


def _no_option(
    option: str, arguments: Iterable[Argument], command: str, words: Sequence[str]
) -> str:
    """Says that a command has no such option, and which is meant."""
    synonyms = SYNONYMS
    if command == "train":
        from isotune.cli.train import where_option_is
        from isotune.recipes.recipe import SYNONYMS as OPTION_SYNONYMS

        place = where_option_is(option, words)
        if place:
            return place
        synonyms = SYNONYMS | OPTION_SYNONYMS
    names = [name for argument in arguments for name in argument.names]
    flags = [name for name in names if name.startswith("-")]
    similar = nearest(option, flags, synonyms)
    message = f"Unknown option: {option}."
    if similar:
        message += f" Did you mean {similar[0]}?"
    if command == "search":
        message += " A text that begins with a dash stands behind --, after the options."
    return message

"""The table of commands, the top-level help, and the call of one command.

The top-level help, the version and the error of a mistyped command use neither cyclopts nor rich, so that they take
some hundredths of a second. Errors and Ctrl-C are caught in `cli/__init__.py`.
"""

import sys
from collections.abc import Sequence

import isotune
from isotune.errors import InputError, unknown

# What follows the command's name on the command line, and what the command does, in at most 66 characters. The command
# `train` is the function `train` of the module `isotune.cli.train`; so with every other command.
COMMANDS = {
    "train": ("TEXT... [OPTIONS]", "Train a sentence encoder on text and report what it gained."),
    "evaluate": ("ENCODER... [OPTIONS]", "Score sentence encoders side by side."),
    "report": ("FOLDER [OPTIONS]", "Write the report page of a run or a study again."),
    "analyse": ("[NAME ENCODER...] [OPTIONS]", "Analyse encoders: a table and a figure, as in the papers."),
    "study": ("[NAME] [OPTIONS]", "Compare methods, models and options over several seeds."),
    "reproduce": ("[NAME] [OPTIONS]", "Reproduce a table or figure of a paper, or list them all."),
    "encode": ("ENCODER FILE... [OPTIONS]", "Turn the sentences of files into vectors."),
    "label": ("TEXT [OPTIONS]", "Score pairs of your own sentences, to choose by them."),
    "index": ("ENCODER FILE... [OPTIONS]", "Keep the rows of files in a search index on disk."),
    "search": ("DIR QUERY [OPTIONS]", "Find the rows of an index that are nearest to a query."),
    "rows": ("DIR [OPTIONS]", "Describe an index, and list or delete its rows."),
    "mine": ("ENCODER FILE... [OPTIONS]", "Find pairs that mean the same, to train on."),
    "export": ("ENCODER --out DIR [OPTIONS]", "Write an encoder as an ONNX graph that needs no torch."),
    "serve": ("ENCODER... [OPTIONS]", "Answer requests over HTTP, and show a page to try encoders."),
    "recipes": ("[OPTIONS]", "List the recipes: the training settings that come with isotune."),
    "datasets": ("[fetch NAME...] [OPTIONS]", "List the datasets that isotune knows by name, or fetch some."),
    "doctor": ("[OPTIONS]", "Check the installation and this machine."),
}
_LINES = "\n".join(f"  {name:12}{summary}" for name, (_, summary) in COMMANDS.items())
HELP = f"""\
Usage: isotune COMMAND

Turn a pretrained language model into a better sentence encoder.

Commands:
{_LINES}

isotune COMMAND --help explains a command. isotune --version prints the version."""


def run(arguments: Sequence[str]) -> int:
    """Runs the command that the arguments name and returns its exit code."""
    if not arguments:
        print(HELP, file=sys.stderr)
        return 2
    command, *words = arguments
    if command in ("--help", "-h", "--version"):
        print(isotune.__version__ if command == "--version" else HELP)
        return 0
    if command not in COMMANDS:
        raise InputError(f"{unknown('command', command, COMMANDS)}. See isotune --help")
    isotune.tune_process()
    from isotune.cli.parser import call  # imports cyclopts

    return call(command, *COMMANDS[command], words)

"""The table of commands, the top-level help, and the call of one command.

The top-level help, the version and the error of a mistyped command use neither cyclopts nor rich,
so that they take some hundredths of a second. Errors and Ctrl-C are caught in `cli/__init__.py`.
"""

import sys
from collections.abc import Sequence

import isotune
from isotune.errors import unknown

INSTALL = "--install-completion"
# What each command does, in at most 66 characters, and an example. The example runs as printed in a
# folder in which those before it have run, but for that of predict, which needs your labels. The
# command `evaluate` is the function `evaluate` of the module `isotune.cli.evaluate`.
COMMANDS = {
    "look": (
        "Say what is in a file before training, and which commands fit.",
        "stsb-open:train",
    ),
    "train": (
        "Train a sentence encoder on text and report what it gained.",
        "stsb-open:train --out runs/first",
    ),
    "evaluate": ("Score sentence encoders side by side.", "bert-tiny runs/first/encoder"),
    "report": ("Write the report page of a run or a study again.", "runs/first"),
    "analyse": (
        "Analyse encoders: a table and a figure, as in the papers.",
        "layers bert-tiny runs/first/encoder",
    ),
    "study": (
        "Compare methods, models and options over several seeds.",
        "own/demo --seeds 0 --out runs/study",
    ),
    "reproduce": (
        "Reproduce a table or figure of a paper, or list them all.",
        "consert/figure5 --model bert-tiny",
    ),
    "encode": (
        "Turn the sentences of files into vectors.",
        "runs/first/encoder stsb-open:test --out vectors.npy",
    ),
    "predict": (
        "Predict the labels of new texts, by a run on texts with labels.",
        "runs/stars/encoder new.csv --out labels.csv",
    ),
    "label": (
        "Score pairs of your own sentences, to choose by them.",
        "stsb-open:train --out pairs.tsv",
    ),
    "index": (
        "Keep the rows of files in a search index.",
        "runs/first/encoder stsb-open:train --out first-index",
    ),
    "search": (
        "Find the rows of an index that are nearest to a query.",
        'first-index "a man plays music" -k 3',
    ),
    "rows": ("Describe an index, and list or delete its rows.", "first-index -k 3"),
    "export": (
        "Write an encoder as an ONNX graph that needs no torch.",
        "runs/first/encoder --out first-onnx",
    ),
    "serve": (
        "Answer requests over HTTP, and show a page to try encoders.",
        "runs/first/encoder --index first-index",
    ),
    "recipes": ("List the recipes: the training settings that come with isotune.", "adapt"),
    "datasets": ("List the datasets that isotune knows by name, or fetch some.", "fetch stsb"),
    "doctor": ("Check the installation and this machine.", "runs/first/encoder"),
}
# What other tools call a command.
SYNONYMS = {
    "annotate": "label",
    "classify": "predict",
    "embed": "encode",
    "fine-tune": "train",
    "finetune": "train",
    "fit": "train",
    "query": "search",
    "test": "evaluate",
}
_LINES = "\n".join(f"  {name:12}{summary}" for name, (summary, _) in COMMANDS.items())
HELP = f"""\
Usage: isotune COMMAND

Turn a pretrained language model into a better sentence encoder.

Commands:
{_LINES}

Environment variables:
  ISOTUNE_DEVICE    the device, as --device of each command: cpu, cuda:1, mps
  ISOTUNE_DATA      a folder with files of named datasets
  OMP_NUM_THREADS   threads of a process; unset, one for each core
  XDG_CACHE_HOME    where caches are kept; unset, ~/.cache
  HF_HUB_OFFLINE=1  no network. HF_HOME, HF_ENDPOINT and HF_TOKEN: where the
                    Hugging Face hub's files are kept, a mirror, your access
  NO_COLOR=1        no colours in the terminal

isotune COMMAND --help explains a command. isotune --version (-V) prints the
version. isotune {INSTALL} adds completion to your shell."""


def run(arguments: Sequence[str]) -> int:
    """Runs the command that the arguments name and returns its exit code."""
    if not arguments:
        print(HELP, file=sys.stderr)
        return 2
    command, *words = arguments
    if command in ("--help", "-h"):
        print(HELP)
        return 0
    if command in ("--version", "-V"):
        print(isotune.__version__)
        return 0
    if command not in (*COMMANDS, INSTALL):
        raise unknown("command", command, COMMANDS, synonyms=SYNONYMS)
    isotune.tune_process()
    # This imports cyclopts.
    from isotune.cli.parser import call

    commands = COMMANDS
    if command != INSTALL:
        commands = {command: COMMANDS[command]}
    return call(command, words, commands)

"""`isotune train`: its flags, its output, and its errors."""

import builtins
import os
import pty
import re
import resource
import shlex
import signal
import socket
import sys
import threading
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from isotune.methods import OPTIONS
from isotune.recipes import Recipe, TrainingOptions, resolve, starting_table
from tests.cli.conftest import Call, Outcome, Refused
from tests.training.conftest import stopped_at

Asked = list[dict[str, Any]]


def panel(text: str, title: str) -> str:
    """A help panel's text, unwrapped."""
    inside = text.partition(f"─ {title} ─")[2].partition("╰")[0]
    return " ".join(inside.replace("│", " ").split())


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """A context in which no file can grow beyond this size, as if the disk were full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("name", ["default", "consert-unsup-base", "simcse-unsup"])
def test_the_help_shows_the_values_of_the_recipe(isotune: Call, name: str) -> None:
    text = isotune("train", "--recipe", name, "--help").out
    stage = Recipe.from_table(starting_table(name, None, None)).stages[0]
    assert f"[default: {stage.training.learning_rate}]" in panel(text, "Training")
    for option in OPTIONS[stage.method].model_fields:
        assert f"--{option.replace('_', '-')}" in panel(text, f"Method {stage.method}")
    for option in TrainingOptions.model_fields.keys() - {"as_released"}:
        assert f" --{option.replace('_', '-')} " in text
    assert len(re.findall(r"^│ --", text, re.MULTILINE)) <= 53
    assert (
        len(re.findall(r"(?<!isotune train) --[a-z-]+ ", panel(text, "Run"))) <= 15
    )  # what most people need


def test_defaults_are_shown_as_they_are_typed(isotune: Call) -> None:
    text = isotune("train", "--recipe", "consert-unsup-base", "--help").out
    assert "[default: -2 -1]" in panel(text, "Encoder")
    assert "[default: feature_cutoff shuffle]" in panel(text, "Method consert")
    assert "[default: 0.9 0.999]" in panel(text, "Optimiser")
    assert "[default: --projection]" in panel(
        isotune("train", "--method=simcse", "--help").out, "Method simcse"
    )
    Path("mine.toml").write_text("[columns]\nsentence = 'body'\n[[stages]]\nmethod = 'simcse'")
    assert "[default: sentence=body]" in panel(
        isotune("train", "--recipe=mine.toml", "--help").out, "Run"
    )


def test_a_run_ends_with_the_path_of_its_report(outcome: Outcome) -> None:
    code, out, err = outcome
    assert code == 0
    assert out == "run/report.html\n"
    assert Path(out.strip()).exists()
    # Without a terminal there are plain lines, and the gain stands at the end.
    steps = [line for line in err.splitlines() if line.startswith("step ")]
    assert [line.partition(":")[0] for line in steps] == [
        "step 0 of 4",
        "step 2 of 4",
        "step 4 of 4",
    ]
    assert "\x1b" not in err
    assert re.search(
        r"pairs\.tsv: -?\d+\.\d\d -> -?\d+\.\d\d "
        r"\([+-]\d+\.\d\d to [+-]\d+\.\d\d, (better|tied|worse)\)\n",
        err,
    )


def test_the_commands_that_a_run_suggests_run_as_printed(
    isotune: Call, few_steps: list[str], sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISOTUNE_DEVICE", "cpu")
    rows = [f"{text}\t{other}" for text, other in pairwise(sentences)]
    Path("my faq.tsv").write_text("\n".join(["title\tbody", *rows]))
    own = [flag for flag in few_steps if not flag.startswith(("--method", "--tasks", "--dev"))]
    err = isotune(
        "train", "my faq.tsv", "--pairs", "title", "body", "--out", "my run", "--dev=none", *own
    ).err
    commands = [shlex.split(line)[1:] for line in err.splitlines() if line.startswith("  isotune ")]
    assert [words[0] for words in commands] == ["label", "evaluate", "index", "search", "serve"]
    answers = (str(number % 6) for number in range(5))
    monkeypatch.setattr(builtins, "input", lambda prompt: next(answers, "q"))
    monkeypatch.setattr("isotune.use.serve.server.serve", lambda *_: None)
    monkeypatch.setattr(
        "isotune.use.serve.server.listen",
        lambda *_: (socket.create_server(("127.0.0.1", 0)), "url"),
    )
    assert [(words, isotune(*words)) for words in commands if isotune(*words).code] == []


def test_the_default_folder_is_named_by_method_and_time(isotune: Call, asked: Asked) -> None:
    out = isotune("train", "text.txt", "--method=simcse").out
    assert re.fullmatch(r"runs/simcse-\d{8}-\d{6}/report\.html\n", out)
    assert str(asked[0]["out"] / "report.html") == out.strip()


def resolved(asked: Asked) -> Recipe:
    """The recipe of the run that was asked for."""
    options = {**asked[0]}
    text, recipe, method = (options.pop(name) for name in ("text", "recipe", "method"))
    others = ("out", "resume", "stand_ins", "pairs")
    return resolve(
        text, recipe, method, {key: value for key, value in options.items() if key not in others}
    )


def test_flags_reach_the_recipe(isotune: Call, asked: Asked) -> None:
    words = [
        "--layers",
        "-2",
        "-1",
        "--columns",
        "sentence=body",
        "--augmentations",
        "none",
        "shuffle",
    ]
    words += [
        "--betas",
        "0.8",
        "0.9",
        "--dev",
        "none",
        "--patience",
        "3",
        "--precision=bfloat16",
        "--seed",
        "7",
    ]
    short = ["--steps", "1", "--method", "consert", "--model", "folder", "--tasks", "a", "b"]
    assert isotune("train", "text.csv", "--out", "run", *words, *short).code == 0
    assert not {"schedule", "epochs", "prompt"} & asked[0].keys()  # only what is given
    plan = resolved(asked)
    assert plan.encoder.layers == (-2, -1)
    assert plan.columns == {"sentence": "body"}
    assert plan.stages[0].options.augmentations == ("none", "shuffle")  # type: ignore[attr-defined]
    assert plan.stages[0].training.betas == (0.8, 0.9)
    assert plan.stages[0].training.patience == 3
    assert plan.stages[0].training.precision == "bfloat16"
    assert (plan.dev, plan.seed, plan.data, plan.tasks) == ("none", 7, ("text.csv",), ("a", "b"))


def test_a_recipe_file_and_its_flags(isotune: Call, asked: Asked) -> None:
    Path("mine.toml").write_text(
        "[[stages]]\nmethod = 'simcse'\nepochs = 9\nbatch_size = 8\npatience = 5\n"
    )
    assert (
        isotune("train", "text.txt", "--recipe=mine.toml", "--steps=2", "--patience=none").code == 0
    )
    (stage,) = resolved(asked).stages
    assert (stage.training.steps, stage.training.epochs, stage.training.patience) == (2, None, None)


@pytest.mark.parametrize("words", [["-"], ["--out", "run", "-"], ["--", "-"]])
def test_standard_input(isotune: Call, asked: Asked, words: list[str]) -> None:
    assert isotune("train", "--method=simcse", *words).code == 0
    assert asked[0]["text"] == ("-",)


def test_standard_input_that_is_closed(
    refused: Refused, few_steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input is closed" in refused("train", "-", *few_steps)


def test_a_run_on_a_terminal_stopped_by_ctrl_c_can_be_resumed(
    isotune: Call, text: Path, few_steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading_end, terminal_end = pty.openpty()
    output: list[bytes] = []

    def listen() -> None:
        with suppress(OSError):  # when the other end is closed
            while chunk := os.read(reading_end, 4096):
                output.append(chunk)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    with (
        os.fdopen(terminal_end, "w") as terminal,
        monkeypatch.context() as patch,
        stopped_at(2, signal.SIGINT),
    ):
        patch.setenv("TERM", "xterm")
        patch.setattr(sys, "stderr", terminal)
        code, out, _ = isotune("train", text, "--out", "run", *few_steps)
    listener.join(10)
    os.close(reading_end)
    shown = b"".join(output).decode(errors="replace")
    assert (code, out) == (128 + signal.SIGINT, "")
    assert "━" in shown  # the progress bar
    assert "3/4" in shown
    assert "stopped after step 3 of 4" in shown
    assert isotune("train", "--resume", "--out", "run") == (0, "run/report.html\n", ANY)


def test_a_column_that_a_file_lacks_is_an_error_before_anything_is_printed(isotune: Call) -> None:
    Path("faq.csv").write_text("question,answer\n" + "one text,another text\n" * 80)
    for option in (["--pairs", "query", "answer"], ["--columns", "sentence=body"]):
        code, out, err = isotune("train", "faq.csv", *option, "--out", "run")
        assert (code, out) == (2, "")
        (line,) = err.splitlines()
        assert re.search(r"faq\.csv: no column '(query|body)'; it has 'question', 'answer'", line)
        assert not Path("run").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--pairs", "text", "text"],
        ["--recipe", "classify", "--columns", "sentence=text", "label=text"],
        ["--method", "cosent", "--dev", "none", "--columns", "score=sentence1"],
    ],
)
def test_a_column_with_two_roles_is_an_error_before_training(
    isotune: Call, words: Sequence[str]
) -> None:
    rows = "one text,red,first,second\n" * 80
    Path("rows.csv").write_text(f"text,kind,sentence1,sentence2\n{rows}")
    code, _, err = isotune("train", "rows.csv", *words, "--out", "run")
    assert code == 2
    assert re.search(r"error: .*rows\.csv: the column '\w+' is read as \w+ and as \w+", err)
    assert not Path("run").exists()


def test_documents_are_trained_on_by_two_columns(isotune: Call, refused: Refused) -> None:
    pairs = tomllib.loads(isotune("train", "gone.csv", "--pairs", "title", "body", "--dry-run").out)
    assert pairs["columns"] == {"sentence1": "title", "sentence2": "body"}
    assert pairs["title"] == starting_table("pairs", None, None)["title"]
    own = isotune(
        "train", "gone.csv", "--pairs", "title", "body", "--recipe", "simcse-sup", "--dry-run"
    ).out
    assert tomllib.loads(own)["title"] == starting_table("simcse-sup", None, None)["title"]
    both = ["--pairs", "a", "b", "--columns", "sentence1=c"]
    assert "pairs and columns both name columns" in refused("train", "x.csv", *both)


def test_teachers_choose_the_recipe(isotune: Call, refused: Refused) -> None:
    words = ["train", "gone.csv", "--teachers", "large", "larger"]
    plan = tomllib.loads(isotune(*words, "--dry-run").out)
    assert plan["title"] == starting_table("distil", None, None)["title"]
    assert plan["stages"][0]["teachers"] == ["large", "larger"]
    assert plan["dev"] == "none"
    assert "most_forgotten" not in plan["stages"][0]
    assert "Method distil" in isotune(*words, "--help").out
    own = isotune(*words, "--recipe", "default", "--dry-run").out
    assert tomllib.loads(own)["title"] == starting_table("default", None, None)["title"]
    assert "no recipe is for both" in refused(*words, "--pairs", "a", "b")


def test_a_dry_run_prints_the_recipe_and_does_nothing(
    isotune: Call, refused: Refused, tmp_path: Path
) -> None:
    code, out, err = isotune(
        "train", "gone.txt", "--method=sncse", "--model=a/b", "--steps=2", "--dry-run"
    )
    assert (code, err, list(tmp_path.iterdir())) == (0, "", [])
    plan = Recipe.from_table(tomllib.loads(out))
    assert (plan.data, plan.model, plan.stages[0].training.steps) == (("gone.txt",), "a/b", 2)
    assert 'parser = "auto"' in out
    assert "leave out --resume" in refused("train", "--dry-run", "--resume", "--out", "run")


BAD: list[tuple[list[str], str]] = [
    ([], "no data: name at least one file"),
    (
        ["text.txt", "--columns", "body"],
        "--columns: body: write FIELD=COLUMN, such as sentence=body",
    ),
    (["text.txt", "--model="], "model: String should have at least 1 character"),
    (["text.txt", "--temperature", "0"], "temperature: Input should be greater than 0 (got 0.0)"),
    (
        ["semicolons.csv"],
        "semicolons.csv:1: the columns seem to be separated by semicolons; separate",
    ),
    (["encoder"], "encoder: this is a model, and text is needed here; isotune train takes"),
]


@pytest.fixture
def files(text: Path) -> None:
    """What `BAD` names, beside text.txt."""
    Path("semicolons.csv").write_text("sentence;score\na dog;1\n")
    Path("encoder").mkdir()
    Path("encoder/modules.json").write_text("[]")


@pytest.mark.parametrize(("words", "message"), BAD)
@pytest.mark.usefixtures("files")
def test_bad_input_is_one_line_and_leaves_no_folder(
    refused: Refused, few_steps: list[str], words: list[str], message: str
) -> None:
    given = {word.partition("=")[0] for word in words}
    flags = [flag for flag in few_steps if flag.partition("=")[0] not in given]
    assert message in refused("train", *words, *flags, "--out", "run")
    assert not Path("run").exists()


def test_out_folders_that_are_refused(refused: Refused, text: Path, few_steps: list[str]) -> None:
    assert "text.txt: this is a file; choose a new folder" in refused(
        "train", text, *few_steps, "--out", "text.txt"
    )
    assert "no file can be made in text.txt (Not a directory)" in refused(
        "train", text, *few_steps, "--out", "text.txt/run"
    )
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("mine")
    assert "mine: this folder exists already; choose another" in refused(
        "train", text, *few_steps, "--out", "mine"
    )
    assert [path.name for path in Path("mine").iterdir()] == ["notes.txt"]


def test_a_full_disk_leaves_no_run(refused: Refused, text: Path, few_steps: list[str]) -> None:
    with files_no_larger_than(20_000):
        assert "it can't be written" in refused("train", text, "--out", "run", *few_steps)
    assert not Path("run").exists()

"""What holds for every command: help that imports little, errors of one line, pipes and Ctrl-C."""

import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from functools import wraps
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from subprocess import PIPE
from types import ModuleType

import pytest
from pydantic_core import PydanticSerializationError

from isotune import plugins
from isotune.cli import app, main
from isotune.cli.app import COMMANDS
from isotune.cli.parser import OUTPUTS
from isotune.errors import InputError
from tests.cli.conftest import Call, Refused
from tests.conftest import hear_interrupts

HEAVY = {
    "torch",
    "transformers",
    "tokenizers",
    "datasets",
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
    "matplotlib",
}
LISTING = {
    "recipes",
    "datasets",
    "doctor",
    "analyse",
    "study",
    "reproduce",
}  # these need no other words
ISOTUNE = [sys.executable, "-m", "isotune"]


def modules_after(*command_lines: list[str]) -> set[str]:
    """The modules that a new process has imported after these command lines."""
    code = (
        f"import sys; from isotune.cli import main; [main(words) for words in {command_lines}]; "
        "print(*sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(process.stdout.splitlines()[-1].split())


def test_help_names_every_command_in_the_order_of_use(isotune: Call) -> None:
    code, out, err = isotune("--help")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    places = [out.index(f"\n  {command} ") for command in COMMANDS]
    assert places == sorted(places)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command(
    isotune: Call, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns in (80, 120):
        monkeypatch.setenv("COLUMNS", f"{columns}")
        code, out, _ = isotune(command, "--help")
        assert code == 0
        lines = out.splitlines()
        assert lines[2] == COMMANDS[command][0]
        assert "--plugin FILE.py" in out
        assert max(map(len, lines)) <= columns
        assert not any(cut in out for cut in ("…", "--empty-", "[default: ]"))


@pytest.mark.parametrize("command", COMMANDS)
def test_the_usage_and_the_example_of_the_help_agree_with_the_command(
    isotune: Call, refused: Refused, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = isotune(command, "--help").out
    usage = re.findall(
        r"(?<!-)(\[?)([A-Z]+)(\.{3})?\]?(?= )", out.partition("[OPTIONS]")[0].partition("--")[0]
    )
    table = re.findall(
        r"^│ (?:(\*)  | {3}|)([A-Z]+) ",
        out.partition("Arguments ─")[2].partition("╰")[0],
        re.MULTILINE,
    )
    assert [(not optional, name) for optional, name, _ in usage] == [
        (star == "*", name) for star, name in table
    ]
    unexpected = "Unexpected argument" in refused(
        command, *"xxxx", *(["--out=y"] if command == "export" else [])
    )
    assert unexpected == (not any(several for *_, several in usage))
    called: list[object] = []
    module = import_module("isotune.training" if command == "train" else f"isotune.cli.{command}")
    record = wraps(getattr(module, command))(lambda *_, **options: called.append(options))
    monkeypatch.setattr(module, command, record)
    example = shlex.split(out.splitlines()[5])
    with suppress(AttributeError):  # of the result of train, which is none here
        isotune(*example[1:])
    assert (example[:2], len(called)) == (["isotune", command], 1)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    isotune: Call, refused: Refused, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    help_text = isotune(command, "--help").out
    usage = help_text.partition("[OPTIONS]")[0]
    words = [command, *re.findall(r"(?<!--out )\b[A-Z]{2,}", usage)]
    called: list[object] = []
    module = import_module("isotune.training" if command == "train" else f"isotune.cli.{command}")
    record = wraps(getattr(module, command))(lambda *_, **options: called.append(options))
    monkeypatch.setattr(module, command, record)
    Path("file").touch()
    for name in OUTPUTS:
        if f"--{name} " not in help_text:
            continue
        line = refused(*words, f"--{name}=file/new/result.png")
        assert "file/new/result.png: it can't be written, because no file can be made in" in line
        assert called == []


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["search", "index", "a dog", "-k"], "-k"),
        (["evaluate", "tiny", "--dimensions"], "--dimensions"),
        (["study", "own/demo", "--seeds", "0"], "--seeds"),
        (["encode", "tiny", "text.txt", "--dimensions"], "--dimensions"),
        (["train", "text.txt", "--steps"], "--steps"),
    ],
)
def test_a_fraction_is_refused_where_a_whole_number_is_needed(
    refused: Refused, words: list[str], option: str
) -> None:
    assert f"{option} 1.5: a whole number is needed" in refused(*words, "1.5")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(
    isotune: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    monkeypatch.setenv("HOME", f"{tmp_path}")
    assert isotune("--install-completion", "--shell", shell).code == 0
    (script,) = {*tmp_path.rglob("*isotune*")} - {tmp_path}
    assert all(
        name in script.read_text("utf-8") for name in (*COMMANDS, "mirror", "temperature", "plugin")
    )
    if shell == "bash":
        words = "COMP_WORDS=(isotune train --lea); COMP_CWORD=2"
        complete = f'. {script}; {words}; _isotune; echo "${{COMPREPLY[@]}}"'
        assert subprocess.check_output(["bash", "-c", complete], text=True) == "--learning-rate\n"


def test_top_level_help_and_a_mistyped_command_import_the_standard_library_only() -> None:
    lines = [["--help"], ["--version"], [], ["trian"]]
    packages = {name.partition(".")[0] for name in modules_after(*lines) - modules_after()}
    assert packages - sys.stdlib_module_names == {"isotune"}


def test_help_imports_nothing_heavy() -> None:
    others = [[command, "--help"] for command in COMMANDS if command != "train"]
    assert {*HEAVY, "pydantic"}.isdisjoint(modules_after(*others))
    assert HEAVY.isdisjoint(
        modules_after(["train", "--help"])
    )  # which takes options from pydantic models


def test_plugins_are_loaded_first(
    isotune: Call, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "_LOADED", {})  # and so no other test has these
    for command in ("train", "recipes"):  # with files of its own, because a plugin is loaded once
        one, two = Path(f"{command}1.py"), Path(f"{command}2.py")
        one.write_text("print('one')")
        two.write_text("print('two')")
        code, out, _ = isotune(command, "--plugin", one, "--help", f"--plugin={two}")
        assert code == 0
        assert out.startswith(f"one\ntwo\nUsage: isotune {command} ")
    assert "gone.py: it can't be read" in refused("encode", "--plugin", "gone.py")


def test_the_version_and_the_help_without_arguments(isotune: Call) -> None:
    assert isotune("--version").out == isotune("-V").out == version("isotune") + "\n"
    assert isotune() == (2, "", isotune("--help").out)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "unknown command 'trian': did you mean 'train'? isotune --help lists all"),
        (["--hlep"], "unknown command '--hlep'. isotune --help lists all"),
        (
            ["train", "--temprature", "1"],
            "Unknown option: --temprature. Did you mean --temperature?",
        ),
        (["train", "--resume"], "--resume needs --out"),
        (["train", "--no-resume"], "Did you mean --resume? See isotune train --help"),
        (
            ["train", "--no-whole-epochs"],
            "--no-whole-epochs is no flag: whole_epochs stands in a recipe's file",
        ),
        (["train", "--spans", "tokens"], "--spans is an option of another method: --method "),
        (
            ["train", "--seed", "x"],
            'Invalid value for --seed: unable to convert "x" into int. See isotune train --hel',
        ),
        (["train", "--seed", "1", "--seed", "2"], "--seed specified multiple times"),
        (
            ["train", "--schedule", "cosin"],
            'Choose from: "linear", "cosine", "constant". Did you mean "cosine"?',
        ),
        (
            ["train", "--pooling", "maen"],
            "unknown pooling 'maen': did you mean 'mean'? Known: cls, ",
        ),
        (
            ["search", "x", "y", "--top-k", "3"],
            "Did you mean -k? A text that begins with a dash stands behind --",
        ),
        (
            ["train", "--method", "sif", "--steps", "9"],
            "--steps is an option of methods with steps, and sif has none;",
        ),
        (
            ["train", "--method", "simcse", "--betas", "0.9"],
            "--betas requires 2 positional arguments. Only got 1.",
        ),
        (["evaluate"], "ENCODER is missing."),
        (["embed"], "unknown command 'embed': did you mean 'encode'?"),
        (["train", "x", "--lr=1"], "Unknown option: --lr. Did you mean --learning-rate?"),
        (["train", "x", "--BatchSize", "8"], "Did you mean --batch-size?"),
        (["train", "x", "--method", "SimCSE"], "unknown method 'SimCSE': did you mean 'simcse'?"),
        (["train", "x", "--method", "adaptt"], "adaptt is no method: give recipe adapt"),
        (
            ["train", "x", "--recipe", "SimCES"],
            "give method simcse, or one of its recipes: simcse-unsup, small-bert-un",
        ),
        (
            ["train", "x", "--model", "all-MiniLM-L6-v2"],
            "write its owner too: sentence-transformers/all-MiniLM-L6-v2",
        ),
        (["search", "x", "a", "b"], "Unexpected argument 'b'. See isotune search --help"),
    ],
)
def test_a_wrong_command_line_is_refused_in_one_line(
    refused: Refused, words: list[str], message: str
) -> None:
    assert message in refused(*words)


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - LISTING))
def test_a_command_without_its_arguments_is_refused_in_one_line(
    refused: Refused, command: str
) -> None:
    refused(command)


def test_a_closed_pipe_is_no_error() -> None:
    for unbuffered in ("", "1"):
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        with subprocess.Popen(
            [*ISOTUNE, "encode", "--help"], env=environment, stdout=PIPE, stderr=PIPE, text=True
        ) as run:
            run.stdout.close()
            assert run.stderr.read() == ""
        assert run.returncode == 128 + signal.SIGPIPE


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_under_standard_output_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [*ISOTUNE, "--version"], stdout=full, stderr=PIPE, text=True, check=False
        )
    assert run.stderr == "error: No space left on device\n"
    assert run.returncode == 2


def test_ctrl_c_while_torch_is_imported(tmp_path: Path) -> None:
    # A torch that says when it is being imported, and takes long.
    (tmp_path / "torch.py").write_text(
        "import time; print('importing', flush=True); time.sleep(60)"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
    }
    with subprocess.Popen(
        [*ISOTUNE, "doctor"],
        env=environment,
        stdout=PIPE,
        stderr=PIPE,
        text=True,
        preexec_fn=hear_interrupts,
    ) as run:
        assert run.stdout.readline() == "importing\n"
        run.send_signal(signal.SIGINT)
        assert run.stderr.read() == ""
    assert run.returncode == 128 + signal.SIGINT


def test_ctrl_c_before_the_command_line_is_imported_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "isotune.cli", Interrupted("isotune.cli"))
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("isotune.__main__", run_name="__main__")
    assert stop.value.code == 128 + signal.SIGINT


@pytest.mark.parametrize("kind", [InputError, PydanticSerializationError])
def test_an_error_that_ctrl_c_became_in_compiled_code_is_a_stop(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(arguments: list[str]) -> int:
        if arguments:
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        raise kind("the file is damaged")

    monkeypatch.setattr(app, "run", run)
    assert main(["doctor"]) == 128 + signal.SIGINT
    assert capsys.readouterr().err == ""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if kind is not InputError:
        with pytest.raises(kind):  # nobody has pressed Ctrl-C
            main([])

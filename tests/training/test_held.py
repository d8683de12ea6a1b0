"""Who may work in a run folder, and what stops a run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from isotune.errors import InputError
from isotune.training.run_folder import locked
from isotune.training.signals import StopSignal


def test_a_second_process_is_refused_and_told_who_holds_the_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with locked(run, new=True):
        for new in (True, False):
            with pytest.raises(
                InputError, match=rf"process {os.getpid()} on \S+, since 20\d\d-\S+; wait"
            ):
                locked(run, new).__enter__()
            (run / "recipe.toml").touch()
    assert [path.name for path in run.iterdir()] == ["recipe.toml"]
    with locked(run, new=False):
        pass


def test_the_folder_of_a_process_that_was_killed_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").touch()
    (tmp_path / ".data.json.0123.part").touch()
    code = (
        "import sys, time, filelock; lock = filelock.FileLock(sys.argv[1]); lock.acquire(); "
        "print(flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        (tmp_path / "holder").write_text("process 7 on there, since 2026-01-02")
        with (
            pytest.raises(InputError, match="process 7 on there, since 2026-01-02"),
            locked(tmp_path, new=False),
        ):
            pass
        process.kill()
    with locked(tmp_path, new=False):
        assert str(os.getpid()) in (tmp_path / "holder").read_text()
        assert (
            tmp_path / "lock"
        ).read_bytes() == b""  # which nobody may write while Windows holds it
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.toml"]


def test_a_run_that_was_killed_before_its_recipe_was_written_has_not_begun(tmp_path: Path) -> None:
    for name in ("lock", "holder", f".recipe.toml.{'0' * 32}.part"):
        (tmp_path / name).touch()
    (tmp_path / "environment.json").write_text('{"recipe_sha256": "0"}')
    with locked(tmp_path, new=True):
        pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_remembered_and_a_second_one_acts_as_before(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    heard: list[int] = []
    before = signal.signal(number, lambda signal_number, frame: heard.append(signal_number))
    try:
        with StopSignal(tell=True) as stop:
            os.kill(os.getpid(), number)
            assert capfd.readouterr().err.strip().startswith("the run stops after the step")
            assert (stop.received, heard) == (number, [])
            os.kill(os.getpid(), number)
            assert heard == [number]
            assert capfd.readouterr().err == ""
        os.kill(os.getpid(), number)
        assert heard == [number, number]
    finally:
        signal.signal(number, before)


def test_two_hangups_of_a_closed_terminal_are_remembered_alike() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with StopSignal() as stop:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGHUP)
                assert stop.received == signal.SIGHUP
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", StopSignal.SIGNALS)
def test_a_signal_that_was_ignored_before_is_still_ignored(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with StopSignal() as stop:
            os.kill(os.getpid(), number)
            assert stop.received is None
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("content", ["[1]", '"a text"', "not JSON"])
def test_an_environment_of_others_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "environment.json").write_text(content)
    with pytest.raises(InputError, match=r"environment\.json: "), locked(tmp_path, new=True):
        pass
    assert (tmp_path / "environment.json").read_text() == content


def test_a_folder_with_files_of_others_is_no_run_that_was_killed(tmp_path: Path) -> None:
    for name in ("movie.part", "environment.json"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text("{}")
        with (
            pytest.raises(InputError, match="this folder exists already"),
            locked(folder, new=True),
        ):
            pass
        assert (folder / name).exists()

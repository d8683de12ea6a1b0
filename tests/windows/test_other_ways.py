"""What isotune does where a system lacks what Linux has."""

import ctypes
import importlib.util
import os
import signal
import sys
from pathlib import Path, PureWindowsPath
from threading import Lock
from types import ModuleType, SimpleNamespace

import pytest
import torch

from isotune import files
from isotune.errors import InputError
from isotune.kernels import threads
from isotune.kernels.cpu import float32, memory
from isotune.lab.studies.job import _drop
from isotune.report import card
from isotune.training import signals
from isotune.training.run_folder import load_tensors, save_tensors
from isotune.use.serve import protocol


def imported_anew(module: ModuleType) -> ModuleType:
    """The module as it is on a system whose other modules have been changed."""
    spec = importlib.util.spec_from_file_location("anew", str(module.__file__))
    assert spec is not None
    assert spec.loader is not None
    anew = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(anew)
    return anew


def test_a_new_file_takes_no_taken_name_on_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "WINDOWS", True)
    monkeypatch.delattr(os, "link")
    with files.atomic_write(tmp_path / "new", new=True) as part:
        part.write_text("first")
    with (
        pytest.raises(InputError, match="it exists already; give another name"),
        files.atomic_write(tmp_path / "new", new=True),
    ):
        pass
    assert (tmp_path / "new").read_text() == "first"
    assert os.listdir(tmp_path) == ["new"]


def test_no_folder_is_opened_to_sync_it_on_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[Path, int]] = []
    system_open = os.open

    def watched_open(path: Path, mode: int, *rest: int) -> int:
        opened.append((path, mode))
        return system_open(path, mode, *rest)

    monkeypatch.setattr(files, "WINDOWS", True)
    monkeypatch.setattr(os, "open", watched_open)
    (tmp_path / "file").write_bytes(b"")
    opened.clear()
    files.sync(tmp_path)
    files.sync(tmp_path / "file")
    opened_here = [(path, mode) for path, mode in opened if Path(path).is_relative_to(tmp_path)]
    # Windows syncs a file only if it is open for writing.
    assert opened_here == [(tmp_path / "file", os.O_RDWR)]


def test_no_file_tells_the_processor_on_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(float32, "CPUS", tmp_path / "cpuinfo")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {})
    for maker, onednn in (("AuthenticAMD", True), ("GenuineIntel", False)):
        name = f"AMD64 Family 25 Model 1 Stepping 1, {maker}"
        monkeypatch.setattr("platform.processor", lambda name=name: name)
        assert float32.pays.__wrapped__() is onednn


def test_memory_without_a_control_group(tmp_path: Path) -> None:
    assert memory.free_memory(tmp_path / "none") > 2**26


@pytest.mark.parametrize("error", [TypeError, AttributeError])
def test_a_c_library_without_a_name_is_left_alone(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: None) -> None:
        raise error

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    assert memory._c_function.__wrapped__("mallopt") is None


def test_peak_memory_of_each_system(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = SimpleNamespace(ru_maxrss=3 * 2**20)
    resource = SimpleNamespace(RUSAGE_SELF=0, getrusage=lambda whose: usage)
    peaks = {}
    for platform, module in (("linux", resource), ("darwin", resource), ("win32", None)):
        monkeypatch.setitem(sys.modules, "resource", module)
        monkeypatch.setattr(sys, "platform", platform)
        peaks[platform] = memory.peak_memory()
    # Linux counts in KiB, macOS in bytes.
    assert peaks == {"linux": 3 * 2**30, "darwin": 3 * 2**20, "win32": 0}


def test_connections_without_a_limit_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)
    assert protocol._most_connections() == protocol.MOST_CONNECTIONS
    limit = (-1, -1)
    resource = SimpleNamespace(RLIMIT_NOFILE=7, RLIM_INFINITY=-1, getrlimit=lambda what: limit)
    monkeypatch.setitem(sys.modules, "resource", resource)
    # macOS has none for the superuser.
    assert protocol._most_connections() == protocol.MOST_CONNECTIONS
    limit = (256, 256)
    assert protocol._most_connections() == 192


def test_locks_where_nothing_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "register_at_fork", raising=False)
    lock = Lock()
    assert imported_anew(threads).forkable(lock) is lock


def test_a_run_listens_to_the_signals_that_the_system_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(signal, "SIGHUP", raising=False)
    stop = imported_anew(signals).StopSignal()
    assert stop.SIGNALS == (signal.SIGINT, signal.SIGTERM)
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with stop:
            signal.raise_signal(signal.SIGTERM)
            assert stop.received == signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_folder_is_dropped_as_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rename takes no taken name there, so what an earlier process left goes first."""
    system_rename = Path.rename

    def rename(path: Path, target: Path) -> Path:
        assert not target.exists()
        return system_rename(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    for name in ("encoder", "encoder.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    _drop(tmp_path / "encoder")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists what is mapped")
def test_a_checkpoint_that_was_read_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "last.safetensors"
    save_tensors(path, {"weight": torch.ones(3)}, {"step": 1})
    tensors, header = load_tensors(path)
    assert str(path) not in Path("/proc/self/maps").read_text()
    assert tensors["weight"].tolist() == [1, 1, 1]
    assert header == {"step": 1}


def test_a_model_card_has_no_paths_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card, "Path", PureWindowsPath)
    monkeypatch.setattr(PureWindowsPath, "exists", lambda path: False, raising=False)
    recipe = {
        "model": r"C:\Users\Ada\models\minilm",
        "stages": [{"data": ["D:/texts/notes.txt"], "method": "simcse"}],
        "teachers": ["sentence-transformers/all-MiniLM-L6-v2"],
    }
    assert card._without_paths(recipe) == {
        "model": "minilm",
        "stages": [{"data": ["notes.txt"], "method": "simcse"}],
        "teachers": ["sentence-transformers/all-MiniLM-L6-v2"],
    }

"""What `tune_process` sets, that environment variables override it, and how much memory is free."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from isotune.kernels.cpu import memory


@pytest.mark.parametrize("library", ["glibc", "another"])
@pytest.mark.parametrize("variable", ["", "GLIBC_TUNABLES", "OMP_WAIT_POLICY"])
def test_environment_variables_and_other_libraries_override_it(
    library: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[int, ...]] = []
    onednn, torch_ = memory.PREPARED_VARIABLES
    monkeypatch.setattr(os, "environ", environment := {onednn: "7", variable: "1"})
    found = (lambda *values: calls.append(values)) if library == "glibc" else None
    monkeypatch.setattr(memory, "_c_function", lambda name: found)
    memory.tune_process()
    assert (environment[onednn], environment[torch_]) == ("7", "128")
    assert environment.get("GOMP_SPINCOUNT") == (None if variable == "OMP_WAIT_POLICY" else "1000")
    assert calls == [*memory.MALLOC_OPTIONS.items()] * (
        library == "glibc" and variable != "GLIBC_TUNABLES"
    )
    memory.give_back()


@pytest.mark.skipif(sys.platform != "linux", reason="torch's threads are not libgomp's")
def test_waiting_threads_of_a_command_let_others_compute() -> None:
    environment = {
        name: value for name, value in os.environ.items() if name not in memory.WAITING_VARIABLES
    }
    environment["OMP_DISPLAY_ENV"] = "verbose"
    script = "from isotune.cli.app import run; run(['recipes', 'adapt']); import torch"
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert f"GOMP_SPINCOUNT = '{memory.SPINS}'" in done.stderr


@pytest.mark.skipif(not memory._c_function("mallopt"), reason="the C library isn't glibc")
def test_freed_memory_is_kept_until_give_back() -> None:
    """Runs in another process: malloc's options hold for a whole process and can't be read."""
    script = """
        from pathlib import Path
        from isotune.kernels.cpu import memory

        def resident():
            return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

        memory.tune_process()
        before = resident()
        block = b"x" * 2**26  # 64 MiB
        del block
        print(resident() - before)
        memory.give_back()
        print(resident() - before)
    """
    plain = {
        name: value for name, value in os.environ.items() if name not in memory.MALLOC_VARIABLES
    }
    command = [sys.executable, "-c", dedent(script)]
    done = subprocess.run(command, env=plain, check=True, capture_output=True, text=True)
    kept, given_back = map(float, done.stdout.split())
    assert kept > 60
    assert given_back < 10


def test_a_container_leaves_less_memory_than_the_machine_has(tmp_path: Path) -> None:
    whole = memory.free_memory(tmp_path)
    assert whole > 2**28
    for name, text in (
        ("memory.current", "700"),
        ("memory.stat", "anon 300\ninactive_file 400\n"),
        ("memory.max", "max"),
    ):
        (tmp_path / name).write_text(f"{text}\n")
    assert memory.free_memory(tmp_path) > 2**28  # no limit
    (tmp_path / "memory.max").write_text("1000\n")
    assert memory.free_memory(tmp_path) == 700
    (tmp_path / "memory.stat").write_text("anon 300\n")
    assert memory.free_memory(tmp_path) > 2**28  # no such statistic

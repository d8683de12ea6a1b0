"""What `tune_process` sets, and that environment variables override it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from textwrap import dedent

import pytest

from isotune.kernels import memory


def test_environment_variables_override_it(monkeypatch: pytest.MonkeyPatch) -> None:
    onednn, torch_ = memory.PREPARED_VARIABLES
    monkeypatch.setenv(onednn, "7")
    monkeypatch.delenv(torch_, raising=False)
    memory.tune_process()
    assert (os.environ[onednn], os.environ[torch_]) == ("7", "128")


@pytest.mark.skipif(not memory._c_function("mallopt"), reason="the C library isn't glibc")
def test_freed_memory_is_kept_until_give_back() -> None:
    """Runs in another process, because malloc's options hold for a whole process and can't be read."""
    script = """
        from pathlib import Path
        import torch
        from isotune.kernels import memory

        def resident():
            return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

        memory.tune_process()
        before = resident()
        tensor = torch.ones(2**24)  # 64 MiB
        del tensor
        print(resident() - before)
        memory.give_back()
        print(resident() - before)
    """
    plain = {name: value for name, value in os.environ.items() if name not in memory.MALLOC_VARIABLES}

    def megabytes(environment: dict[str, str]) -> list[float]:
        command = [sys.executable, "-c", dedent(script)]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return [float(line) for line in done.stdout.split()]

    kept, given_back = megabytes(plain)
    assert kept > 60
    assert given_back < 10
    kept, _ = megabytes({**plain, "MALLOC_MMAP_THRESHOLD_": str(2**20)})  # the user's setting counts
    assert kept < 10


def test_another_c_library_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    memory._c_function.cache_clear()
    try:
        assert memory._c_function("mallopt") is None
        memory.tune_process()
        memory.give_back()
    finally:
        memory._c_function.cache_clear()

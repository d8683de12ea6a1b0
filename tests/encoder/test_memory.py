"""What is kept is limited, unless the user says how much; what is freed goes back, where the C library can do that."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest
import torch

from isotune.encoder import memory


def test_the_environment_has_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    onednn, torch_ = memory.VARIABLES
    monkeypatch.setenv(onednn, "7")
    monkeypatch.delenv(torch_, raising=False)
    memory.limit_prepared()
    assert (os.environ[onednn], os.environ[torch_]) == ("7", "256")


@pytest.mark.skipif(not memory._malloc_trim(), reason="the C library isn't glibc")
def test_what_is_freed_goes_back() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    pieces = [torch.ones(2**14) for _ in range(2**10)]  # 64 MiB, in pieces small enough for the heap
    del pieces[::2]  # where the C library keeps it, since others lie above
    before = resident()
    memory.give_back()
    assert before - resident() > 2**24


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    memory._malloc_trim.cache_clear()
    try:
        assert memory._malloc_trim() is None
        memory.give_back()
    finally:
        memory._malloc_trim.cache_clear()

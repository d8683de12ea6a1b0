"""A clock that jumps forward and back changes nothing."""

import os
import random
import time
from pathlib import Path

import pytest

from tests.crashes.commands import call, goes_on, result


def jump() -> None:
    """From now on, each look at the clock shows another time, up to a day off."""
    chance, seconds = random.Random(0), time.time
    time.time = lambda: seconds() + chance.uniform(-86_400, 86_400)
    time.time_ns = lambda: int(time.time() * 1e9)


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("train", "index")]


@pytest.mark.parametrize("name", ["encode to a folder", *SLOW])
def test_a_clock_that_jumps(name: str, command_words: dict[str, list[str]], tmp_path: Path) -> None:
    words = command_words[name]
    for folder, before in (("undisturbed", None), ("disturbed", jump)):
        assert call(words, tmp_path / folder, before).code == 0
    expected = result(words, tmp_path / "undisturbed")
    assert result(words, tmp_path / "disturbed") == expected
    for path in (tmp_path / "disturbed").rglob("*"):
        tomorrow = time.time() + random.Random(str(path)).uniform(-86_400, 86_400)
        os.utime(path, (tomorrow, tomorrow))
    goes_on(words, tmp_path / "disturbed", expected)

"""Claims: one holder at a time, who is replaced only once dead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from isotune.use.bulk import claims
from isotune.use.bulk.claims import Claim, Claims, read_state


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "work.json"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "HEARTBEAT", 0.02)
    monkeypatch.setattr(claims, "STALE", 0.2)


def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def all_at_once(count: int, function: Callable[[], Claim | None]) -> list[Claim]:
    barrier = Barrier(count)

    def wait_and_call(_: int) -> Claim | None:
        barrier.wait()
        return function()

    with ThreadPoolExecutor(count) as pool:
        return [claim for claim in pool.map(wait_and_call, range(count)) if claim]


def test_machines_of_one_image_have_different_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their host names and the numbers of their first containers are equal, but each was started by itself."""
    names = {claims.machine()}
    monkeypatch.setattr(Path, "read_text", lambda *_: "f0e1d2c3-0000-4000-8000-000000000000\n")
    names.add(claims.machine())
    assert len(names) == 2
    assert len({name.split()[0] for name in names}) == 1


def held_by(path: Path, machine: str, pid: int) -> None:
    """Writes the claim of another process."""
    claim = json.loads(Claim(path).text)
    claim["claimed_by"] |= {"machine": machine, "pid": pid}
    path.write_text(json.dumps(claim))


def test_of_many_that_claim_one_gets_it(path: Path) -> None:
    [claim] = all_at_once(8, lambda: Claims().take(path))
    assert claim.is_held()
    assert Claims().take(path) is None
    assert read_state(path)["claimed_by"]["pid"] == os.getpid()
    assert list(path.parent.iterdir()) == [path]


def test_a_claim_is_given_back_unless_the_work_is_finished(path: Path) -> None:
    claim = Claims().take(path)
    assert claim
    with pytest.raises(KeyboardInterrupt), claim.kept():
        raise KeyboardInterrupt
    assert not path.exists()
    claim = Claims().take(path)
    assert claim
    with claim.kept():
        claim.finish('{"rows": 7}')
    assert read_state(path) == {"rows": 7}
    assert Claims().take(path) is None


def test_of_many_one_takes_over_the_claim_of_a_process_that_is_gone(path: Path) -> None:
    pid = dead_process()
    for _ in range(20):
        held_by(path, claims.machine(), pid)
        key = read_state(path)["key"]
        [claim] = all_at_once(8, lambda: Claims().take(path))
        assert claim.is_held()
        assert claim.former_keys == (key,)
        assert claim.key != key
        assert list(path.parent.iterdir()) == [path]


def test_what_a_process_left_that_died_while_it_took_a_claim_over_is_removed(path: Path) -> None:
    path.write_text(Claim(path, ("first",)).text.replace(f'"pid": {os.getpid()}', f'"pid": {dead_process()}'))
    key = read_state(path)["key"]
    right = path.with_name(f"{path.name}.first")
    right.touch()
    claim = Claims().take(path)
    assert claim
    assert claim.former_keys == ("first", key)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.usefixtures("quick")
def test_a_claim_of_another_machine_is_taken_over_when_its_heart_stops(path: Path) -> None:
    held_by(path, "elsewhere", 1)
    ours = Claims()
    began = time.monotonic()
    for _ in range(15):  # longer than STALE
        os.utime(path)
        assert ours.take(path) is None
        time.sleep(0.02)
    began = time.monotonic()
    while not (claim := ours.take(path)):
        time.sleep(0.01)
    assert time.monotonic() - began > 0.15
    assert claim.is_held()


@pytest.mark.usefixtures("quick")
def test_a_holder_keeps_the_claim_alive(path: Path) -> None:
    claim = Claims().take(path)
    assert claim
    path.write_text(claim.text)
    watcher = Claims()
    with claim.kept():
        for _ in range(20):
            assert watcher.take(path) is None
            time.sleep(0.02)
        path.write_text(json.dumps({"claimed_by": {"machine": "elsewhere", "pid": 1}, "key": "other"}))
        assert not claim.is_held()
    assert read_state(path)["key"] == "other"  # not given back: it is another's now


def test_a_running_process_of_this_machine_keeps_its_claim(path: Path) -> None:
    held_by(path, claims.machine(), os.getppid())
    assert Claims().take(path) is None
    held_by(path, claims.machine(), 1)  # not ours to signal, if this user is not root
    assert Claims().take(path) is None

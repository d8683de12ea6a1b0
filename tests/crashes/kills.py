"""Kills work at random moments and lets it go on: python -m tests.crashes.kills WORK SEED KILLS

The work is done in processes that this process forks. A process is killed by SIGKILL, at a random
time or just before a random change of a file; then the next process goes on, until the work is
done. After each kill, no file under a final name is torn. In the end, the result has to be that of
the work that nobody disturbed.

Prints, each time when the work is done, how many processes were killed so far, how often the work
was done, and how long that took.
"""

import tests.hub.environment  # noqa: F401

import json
import mmap
import os
import pickle
import random
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch

from isotune.files import verify_checksums
from isotune.training.run_folder import load_tensors
from tests.crashes.work import WORKS, Work, make_inputs

CHANGES = ("os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir", "os.truncate")


def watch_changes(folder: Path, before: Callable[[], object]) -> None:
    """From now on, calls `before` just before each change of a file in the folder, and before each
    fsync."""
    root, fsync = str(folder), os.fsync

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        writes = (
            event == "open"
            and isinstance(arguments[2], int)
            and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        if (writes or event in CHANGES) and str(arguments[0]).startswith(root):
            before()

    def watched(number: int) -> None:
        before()
        fsync(number)

    os.fsync = watched
    sys.addaudithook(hook)


def fork(work: Work, folder: Path, before_change: Callable[[], object]) -> int:
    """Starts a process, the first of a group, that goes on with the work."""
    process = os.fork()
    with suppress(OSError):
        os.setpgid(process, process)
    if process:
        return process
    code = 1
    try:
        torch.set_num_threads(1)
        watch_changes(folder, before_change)
        work.go_on(folder)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def in_child(function: Callable[[Path], Any], folder: Path) -> Any:
    """What a function returns in a forked process, so that no thread of a library starts in this
    one."""
    with tempfile.TemporaryFile() as file:
        process = os.fork()
        if process == 0:
            try:
                pickle.dump(function(folder), file)
                file.flush()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        assert os.waitpid(process, 0)[1] == 0, f"{folder} can't be read"
        file.seek(0)
        return pickle.load(file)


def workplace() -> tempfile.TemporaryDirectory[str]:
    """A new folder, in memory if that is possible: waiting for a disk would take most of the
    time."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)


class Killer:
    """Does work in processes, undisturbed or not."""

    def __init__(self, work: Work, chance: random.Random, folder: Path) -> None:
        """Does the work undisturbed, to see how long it takes and how many changes of files it
        makes."""
        self.work, self.chance = work, chance
        count = mmap.mmap(-1, 8)  # shared with the forked process

        def add() -> None:
            count[:] = (int.from_bytes(count[:], "big") + 1).to_bytes(8, "big")

        began = time.monotonic()
        assert os.waitpid(fork(work, folder, add), 0)[1] == 0
        self.seconds, self.changes = time.monotonic() - began, int.from_bytes(count[:], "big")

    def finish(self, folder: Path) -> None:
        """Does the work to the end."""
        assert os.waitpid(fork(self.work, folder, lambda: None), 0)[1] == 0, (
            f"the work can't go on in {folder}"
        )

    def kill(self, folder: Path) -> bool:
        """Starts a process and kills it; False if its work was done before that."""
        left = self.chance.randint(1, self.changes)
        by_time = self.chance.random() < 0.4

        def count_down() -> None:
            nonlocal left
            left -= 1
            if left == 0 and not by_time:
                os.kill(os.getpid(), signal.SIGKILL)

        process = fork(self.work, folder, count_down)
        end = time.monotonic() + self.chance.uniform(0, self.seconds)
        ended, status = 0, 0
        while not ended and not (by_time and time.monotonic() > end):
            ended, status = os.waitpid(process, os.WNOHANG)
            time.sleep(0.002)
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)  # by time; or what is left of the group
        if not ended:
            _, status = os.waitpid(process, 0)
        assert status in (0, signal.SIGKILL), f"the work failed in {folder}"
        return status == signal.SIGKILL


def check_whole(folder: Path, ended: bool = True) -> None:
    """Reads every file under a final name.

    A run that has not ended may have the checksum of a file that comes next.
    """
    for path in folder.rglob("*"):
        if _is_unfinished(path.relative_to(folder)):
            continue
        if path.name == "SHA256SUMS":
            of_run = (path.parent / "recipe.toml").exists() or path.parent.parent.name == "runs"
            if ended or not of_run:
                verify_checksums(path.parent)
            continue
        # Other safetensors files are in SHA256SUMS.
        if path.suffix == ".safetensors" and path.name.startswith(("best-", "last")):
            load_tensors(path)
        read = READERS.get(path.suffix)
        if read:
            read(path)


def _is_unfinished(path: Path) -> bool:
    """Whether nothing reads this file, or it is one of huggingface_hub's empty ones."""
    if path.name == "lock" or ".no_exist" in path.parts:
        return True
    return any(part.endswith((".part", ".new", ".old", ".lance")) for part in path.parts)


def _read_arrays(path: Path) -> None:
    with np.load(path) as arrays:
        dict(arrays)


def _read_page(path: Path) -> None:
    assert path.read_text("utf-8").rstrip().endswith("</html>"), path


READERS: dict[str, Callable[[Path], object]] = {
    ".json": lambda path: json.loads(path.read_text("utf-8")),
    ".toml": lambda path: tomllib.loads(path.read_text("utf-8")),
    ".npz": _read_arrays,
    ".npy": np.load,
    ".parquet": pq.read_table,
    ".html": _read_page,
}


check_unfinished = partial(check_whole, ended=False)


def check_end(work: Work, folder: Path, expected: dict[str, object], when: str) -> None:
    """Compares what disturbed work has made with what is expected, and removes it."""
    in_child(check_whole, folder)
    result = in_child(work.result, folder)
    others = sorted(key for key in expected | result if result.get(key) != expected.get(key))
    names = sorted({*expected.get("names", ())} ^ {*result.get("names", ())})  # type: ignore[misc]
    assert not others, f"{when} there are other {others} {names}"
    shutil.rmtree(folder)


def main(name: str, seed: int, kills: int) -> None:
    """Kills so many processes that do a work, or a few more."""
    torch.set_num_threads(1)
    chance, killed, done, began = random.Random(f"{name} {seed}"), 0, 0, time.monotonic()
    with workplace() as temporary:
        folder = Path(temporary)
        work = WORKS[name](make_inputs(folder / "inputs"))
        if name not in ("indexing", "two processes"):  # whose threads a forked process would lack
            work.go_on(folder / "warm")  # so that the forked processes have all modules
        killer = Killer(work, chance, folder / "undisturbed")
        expected = in_child(work.result, folder / "undisturbed")
        while killed < kills:
            disturbed = folder / f"disturbed-{done}"
            for _ in range(chance.randint(1, 5)):
                if not killer.kill(disturbed):
                    break
                killed += 1
                in_child(check_unfinished, disturbed)
            killer.finish(disturbed)
            check_end(work, disturbed, expected, f"{name}, seed {seed}: after {killed} kills")
            done += 1
            seconds = round(time.monotonic() - began)
            print(
                f"{name}: {killed} processes killed, done {done} times in {seconds} s", flush=True
            )


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))

"""Cuts the power of work at random moments: python -m tests.crashes.power_cuts WORK SEED CUTS

The work is done once, and what it does to its files is recorded. From the record, states of the disk are built that a
power cut may leave: the content of a file is that of its last fsync, or any later one, or a later one in part; a name
that was given, changed or removed since the last fsync of its folder is there or not, each independently of the others.
From each state the work goes on, and has to end as the undisturbed work. What is finished has to outlive the worst cut.

fsync is seen if Python calls it, so that what a library brings to the disk by itself counts as not brought there.
"""

import os
import pickle
import random
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock

import torch

from tests.crashes.kills import check_whole, fork, in_child, workplace
from tests.crashes.work import WORKS, Work, make_inputs

ROOT = 0  # the number of the folder itself


@dataclass
class Names:
    """Names in one folder that have changed together: {name: the number of a file or folder, or None}."""

    folder: int
    changes: dict[str, int | None]


@dataclass
class Content:
    """A file has new content; None if this is a folder."""

    file: int
    content: bytes | None


@dataclass
class Sync:
    """A file's content, or the names in a folder, are on the disk."""

    number: int


Record = list[Names | Content | Sync]


@dataclass
class Recorder:
    """Sees what happens in a folder by looking at it before each change.

    Files and folders have numbers, which stay when a name changes.
    """

    root: Path
    record: Record = field(default_factory=list)
    _names: dict[tuple[int, str], int] = field(default_factory=dict)
    _numbers: dict[int, int] = field(default_factory=dict)  # by inode
    _seen: dict[int, object] = field(default_factory=dict)  # the size and time of each file
    _count: int = 0
    _lock: RLock = field(default_factory=RLock)
    _looking: bool = False

    def look(self, synced: int | None = None) -> None:
        """Records what has changed; the file with the inode `synced` has been brought to the disk."""
        with self._lock:
            if self._looking:  # looking opens files, too
                return
            self._looking = True
            try:
                self._look(synced)
                if synced in self._numbers:
                    self.record.append(Sync(self._numbers[synced]))
            finally:
                self._looking = False

    def _look(self, synced: int | None) -> None:
        names, numbers, changes = {}, {self.root.stat().st_ino: ROOT}, defaultdict[int, dict[str, int | None]](dict)
        folders = [self.root]
        while folders:
            folder = folders.pop()
            for entry in list(os.scandir(folder)):
                with suppress(FileNotFoundError):  # another thread has removed it
                    status = entry.stat(follow_symlinks=False)
                    number = numbers.get(status.st_ino) or self._numbers.get(status.st_ino) or self._next()
                    numbers[status.st_ino] = number
                    names[numbers[folder.stat().st_ino], entry.name] = number
                    self._see(Path(entry.path), number, status, status.st_ino == synced)
                    if entry.is_dir():
                        folders.append(Path(entry.path))
        for (place, name), number in {**dict.fromkeys(self._names), **names}.items():
            if self._names.get((place, name)) != number:
                changes[place][name] = number
        self.record += [Names(place, changed) for place, changed in changes.items()]
        self._names, self._numbers = names, numbers

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _see(self, path: Path, number: int, status: os.stat_result, synced: bool) -> None:
        state = status.st_size, status.st_mtime_ns
        if synced or self._seen.get(number) != state:
            self._seen[number] = state
            self.record.append(Content(number, None if path.is_dir() else path.read_bytes()))


def recorded(work: Work, folder: Path) -> Record:
    """Does the work in a new folder, in a forked process; returns what happened to its files."""
    folder.mkdir()
    with tempfile.NamedTemporaryFile() as file:

        def go_on(folder: Path) -> None:
            recorder, fsync = Recorder(folder), os.fsync
            sys.addaudithook(lambda event, _: recorder.look() if event in EVENTS else None)

            def watched(number: int) -> None:
                recorder.look()
                fsync(number)
                recorder.look(synced=os.fstat(number).st_ino)

            os.fsync = watched
            work.go_on(folder)
            recorder.look()
            Path(file.name).write_bytes(pickle.dumps(recorder.record))

        process = fork(Work(go_on, work.result), folder, lambda: None)
        assert os.waitpid(process, 0)[1] == 0
        return pickle.loads(Path(file.name).read_bytes())


EVENTS = {"open", "os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir", "os.truncate"}


def build(record: Record, target: Path, chance: random.Random | None) -> None:
    """Builds a state of the disk after the events of a record, by chance, or else the worst.

    In the worst state nothing is there that was not brought to the disk.
    """
    contents: dict[int, list[bytes | None]] = defaultdict(lambda: [b""])
    safe: dict[int, int] = {}  # when the names in each folder were last brought to the disk
    for moment, event in enumerate(record):
        if isinstance(event, Content):
            contents[event.file].append(event.content)
        elif isinstance(event, Sync):
            safe[event.number] = moment
            contents[event.number] = contents[event.number][-1:]
    likely = chance.choice([0.0, 0.5, 0.9, 1.0]) if chance else 0.0
    names: dict[int, dict[str, int | None]] = defaultdict(dict)
    for moment, event in enumerate(record):
        if isinstance(event, Names) and (moment < safe.get(event.folder, -1) or (chance and chance.random() < likely)):
            names[event.folder].update(event.changes)

    def fill(folder: int, path: Path) -> None:
        path.mkdir()
        for name, number in names[folder].items():
            if number is None:
                continue
            if contents[number][-1] is None:
                fill(number, path / name)
            else:
                (path / name).write_bytes(_content([part for part in contents[number] if part is not None], chance))

    fill(ROOT, target)


def _content(versions: list[bytes], chance: random.Random | None) -> bytes:
    """What a power cut leaves of a file whose first version is on the disk, and whose others may be, also in part."""
    if chance is None or len(versions) == 1:
        return versions[0]
    version = chance.choice(versions)
    pairs = enumerate(zip(versions[0], version, strict=False))
    same = next((place for place, (old, new) in pairs if old != new), min(len(versions[0]), len(version)))
    kept = chance.randint(same, len(version))
    return chance.choice([version, version, version[:kept], version[:kept] + bytes(len(version) - kept)])


def main(name: str, seed: int, cuts: int) -> None:
    """Cuts the power of a work so many times."""
    torch.set_num_threads(1)
    chance, began = random.Random(f"{name} {seed}"), time.monotonic()
    with workplace() as temporary:
        folder = Path(temporary)
        work = WORKS[name](make_inputs(folder / "inputs"))
        work.go_on(folder / "warm")  # so that the forked processes have all modules
        record = recorded(work, folder / "undisturbed")
        expected = in_child(work.result, folder / "undisturbed")
        for cut in range(cuts + 1):
            state = folder / f"state-{cut}"
            if cut == 0:
                build(record, state, None)  # the worst after the end: nothing is to be done again
            else:
                build(record[: chance.randint(0, len(record))], state, chance)
                in_child(check_whole, state)
                assert os.waitpid(fork(work, state, lambda: None), 0)[1] == 0, f"the work can't go on in {state}"
            in_child(check_whole, state)
            result = in_child(work.result, state)
            others = sorted(key for key in expected | result if result.get(key) != expected.get(key))
            assert not others, f"{name}, seed {seed}: after power cut {cut} there are other {others}"
            shutil.rmtree(state)
    seconds = round(time.monotonic() - began)
    print(f"{name}: {cuts} power cuts, {len(record)} events, {seconds} s")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))

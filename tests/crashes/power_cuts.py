"""Cuts the power of work at random moments: python -m tests.crashes.power_cuts WORK SEED CUTS

The work is done once. Before random changes of its files, a state of the disk is built that a power
cut may leave then: the content of a file is that of its last fsync, or the present one, or the
present one in part; a name that was given, changed or removed since the last fsync of its folder is
there or not, each independently of the others. From each state the work goes on, and has to end as
the undisturbed work. What is finished has to outlive the worst cut.

fsync is seen if Python calls it, so that what a library brings to the disk by itself counts as not
brought there.
"""

import os
import random
import sys
import time
from pathlib import Path

import torch

from tests.crashes.kills import Killer, check_end, check_unfinished, fork, in_child, workplace
from tests.crashes.work import WORKS, Work, make_inputs

Names = dict[str, tuple[int, bool]]  # of a folder: each name's inode, and whether that is a folder


def names_in(folder: int | Path) -> Names:
    return {entry.name: (entry.inode(), entry.is_dir()) for entry in os.scandir(folder)}


class Disk:
    """What was brought to the disk of a folder: the content of each file and the names in each
    folder, by inode."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.root = root
        self.contents: dict[int, bytes] = {}
        self.names: dict[int, Names] = {}

    def sync(self, number: int) -> None:
        """Notes what an fsync has brought to the disk."""
        opened, inode = Path(f"/proc/self/fd/{number}"), os.fstat(number).st_ino
        if opened.is_dir():
            self.names[inode] = names_in(number)
        else:
            self.contents[inode] = opened.read_bytes()

    def build(self, target: Path, chance: random.Random | None = None) -> None:
        """Builds a state after a power cut now: by chance, or the worst, which has nothing but what
        was synced."""
        present = {path.stat().st_ino: path for path in (self.root, *self.root.rglob("*"))}
        likely = chance.choice([0.0, 0.5, 0.9, 1.0]) if chance else 0.0

        def fill(folder: int, path: Path) -> None:
            path.mkdir()
            old, new = (
                self.names.get(folder, {}),
                names_in(present[folder]) if folder in present else {},
            )
            for name in old | new:
                kept = new if chance and chance.random() < likely else old
                if name in kept:
                    inode, is_folder = kept[name]
                    if is_folder:
                        fill(inode, path / name)
                    else:
                        (path / name).write_bytes(self.content(inode, present.get(inode), chance))

        fill(self.root.stat().st_ino, target)

    def content(self, inode: int, path: Path | None, chance: random.Random | None) -> bytes:
        """What is left of a file, whose synced content can be relied on as far as the present one
        begins alike."""
        old = self.contents.get(inode, b"")
        if chance is None or path is None:
            return old
        new = path.read_bytes()
        both = enumerate(zip(old, new, strict=False))
        same = next(
            (place for place, (one, other) in both if one != other), min(len(old), len(new))
        )
        kept = chance.randint(same, len(new))
        return chance.choice([old, new, new[:kept], new[:kept] + bytes(len(new) - kept)])


def main(name: str, seed: int, cuts: int) -> None:
    """Cuts the power of a work so many times."""
    torch.set_num_threads(1)
    chance, began = random.Random(f"{name} {seed}"), time.monotonic()
    with workplace() as temporary:
        folder = Path(temporary)
        work = WORKS[name](make_inputs(folder / "inputs"))
        work.go_on(folder / "warm")  # so that the forked processes have all modules
        killer, count, disk = Killer(work, chance, folder / "undisturbed"), 0, Disk(folder / "cut")
        expected = in_child(work.result, folder / "undisturbed")
        moments = chance.choices(range(1, killer.changes + 1), k=cuts)

        def before_change() -> None:
            nonlocal count
            count += 1
            for number in (number for number, moment in enumerate(moments, 1) if moment == count):
                disk.build(folder / f"state-{number}", chance)

        def go_on(place: Path) -> None:
            fsync = os.fsync
            os.fsync = lambda number: (fsync(number), disk.sync(number))
            work.go_on(place)
            disk.build(folder / "state-0")  # the worst after the end: nothing is to be done again

        assert os.waitpid(fork(Work(go_on, work.result), disk.root, before_change), 0)[1] == 0
        for state in folder.glob("state-*"):
            if state.name != "state-0":
                in_child(check_unfinished, state)
                killer.finish(state)
            check_end(work, state, expected, f"{name}, seed {seed}: after power cut {state.name}")
    print(f"{name}: {cuts} power cuts, {killer.changes} changes, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))

"""Fetches datasets and models ahead of their use: what `isotune datasets fetch` and `isotune reproduce --fetch` do."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from isotune.errors import InputError


def fetch_all(datasets: Iterable[str], models: Iterable[str] = ()) -> None:
    """Fetches what is not on this machine, and reads every dataset once to check it.

    The list of what is fetched, with sizes, is printed first.

    Raises:
        InputError: something can't be fetched or is not what it should be, or the disk has no room for it.
    """
    from isotune.cli.tables import stdout_console
    from isotune.data.fetch import check_fetched, plan_fetch

    say, names = partial(stdout_console().print, soft_wrap=True), list(datasets)
    fetches = plan_fetch(names)
    if models := list(models):
        from isotune.encoder.format.pretrained import plan_model_fetch  # imports torch

        fetches += filter(None, map(plan_model_fetch, models))
    sizes: Counter[Path] = Counter()  # bytes, by the folder
    for item in fetches:
        sizes[item.folder] += item.size
    for folder, size in sizes.items():
        say(f"to fetch: {size / 1e6:,.1f} MB, into {folder}")
        for item in fetches:
            if item.folder == folder:
                commit = f", commit {item.commit}" if item.commit and item.commit not in item.name else ""
                say(f"  {item.size / 1e6:>10,.1f} MB  {item.name}{commit}")
    needed: Counter[int] = Counter()  # bytes, by the number of the disk
    for folder, size in sizes.items():
        there = next(path for path in (folder, *folder.parents) if path.exists())
        needed[disk := there.stat().st_dev] += size
        if needed[disk] > (free := shutil.disk_usage(there).free):
            raise InputError(f"{folder}: {free / 1e6:,.1f} MB are free, and {needed[disk] / 1e6:,.1f} MB are needed")
    for number, item in enumerate(fetches, 1):
        say(f"{number} of {len(fetches)}: {item.name}")
        item.run()
    for split, count in check_fetched(names):
        say(f"checked: {split}, {count:,} rows")

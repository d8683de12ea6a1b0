"""Fetches datasets and models ahead of their use: what `isotune datasets fetch` and `isotune reproduce --fetch` do."""

from __future__ import annotations

import shutil
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
    from huggingface_hub import constants

    from isotune.cli.tables import stdout_console
    from isotune.data.fetch import check_fetched, plan_fetch

    say, names = partial(stdout_console().print, soft_wrap=True), list(datasets)
    fetches = plan_fetch(names)
    if models := list(models):
        from isotune.encoder.format.pretrained import plan_model_fetch  # imports torch

        fetches += filter(None, map(plan_model_fetch, models))
    total = sum(item.size for item in fetches)
    say(f"to fetch: {total / 1e6:,.1f} MB, into {constants.HF_HUB_CACHE}")
    for item in fetches:
        say(f"  {item.size / 1e6:>10,.1f} MB  {item.name}")
    folder = Path(constants.HF_HUB_CACHE)
    free = shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free
    if total > free:
        raise InputError(f"{folder}: {free / 1e6:,.1f} MB are free, and {total / 1e6:,.1f} MB are needed")
    for number, item in enumerate(fetches, 1):
        say(f"{number} of {len(fetches)}: {item.name}")
        item.run()
    for split, count in check_fetched(names):
        say(f"checked: {split}, {count:,} rows")

"""Fetches datasets and models ahead of their use: what `isotune datasets fetch` and `isotune reproduce --fetch` do."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial


def fetch_all(datasets: Iterable[str], models: Iterable[str] = ()) -> None:
    """Fetches what is not on this machine, and reads every dataset once to check it."""
    from isotune.bundled import local_model
    from isotune.cli.tables import stdout_console
    from isotune.data.fetch import check_fetched, fetch

    say, names = partial(stdout_console().print, soft_wrap=True), list(datasets)
    for place in fetch(names):
        say(f"fetching {place}")
    for model in models:
        if local_model(model) is None:
            from isotune.encoder.format.pretrained import local_folder  # imports torch

            say(f"fetching {model}")
            local_folder(model)
    for split, count in check_fetched(names):
        say(f"checked: {split}, {count:,} rows")

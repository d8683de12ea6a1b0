"""Fetches datasets and models ahead of their use: what `isotune datasets fetch` and `isotune reproduce --fetch` do."""

from collections.abc import Iterable
from functools import partial


def fetch_all(datasets: Iterable[str], models: Iterable[str] = ()) -> None:
    """Fetches what is not on this machine, and reads every dataset once to check it.

    The list of what is fetched, with sizes, is printed first.
    """
    from isotune.cli.tables import stdout_console
    from isotune.data.fetch import check_fetched, plan_fetch

    say, names = partial(stdout_console().print, soft_wrap=True), list(datasets)
    fetches = plan_fetch(names)
    if models := list(models):
        from isotune.encoder.format.pretrained import plan_model_fetch  # imports torch

        fetches += filter(None, map(plan_model_fetch, models))
    if fetches:
        more = "" if all(item.size for item in fetches) else " or more"
        say(f"to fetch: {sum(item.size for item in fetches) / 1e6:,.1f} MB{more}")
    for item in fetches:
        size = f"{item.size / 1e6:,.1f} MB" if item.size else "unknown"
        commit = f", commit {item.commit}" if item.commit and item.commit not in item.name else ""
        say(f"  {size:>13}  {item.name}{commit}")
    for number, item in enumerate(fetches, 1):
        say(f"{number} of {len(fetches)}: {item.name}")
        item.run()
    for split, count in check_fetched(names):
        say(f"checked: {split}, {count:,} rows")

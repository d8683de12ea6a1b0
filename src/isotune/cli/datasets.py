"""`isotune datasets`: the table of named datasets."""

from __future__ import annotations


def datasets() -> None:
    """List the named datasets: whether they are on this machine, their sizes, where they are from, their licence."""
    import rich
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from isotune.data import DATASETS, available

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("Dataset", "Here", "Rows"):
        table.add_column(column, no_wrap=True)
    table.add_column("From, and licence")
    for name, dataset in DATASETS.items():
        rows = [f"{split} {part.rows:,}" for split, part in dataset.splits.items()] or dataset.union
        here = "yes" if available(name) else "no"
        table.add_row(name, here, "\n".join(rows), Text(f"{dataset.source}\n{dataset.licence}"))
    rich.print(table)

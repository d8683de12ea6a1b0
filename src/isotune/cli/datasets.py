"""`isotune datasets`: the table of named datasets."""

from __future__ import annotations


def datasets() -> None:
    """List the named datasets: their splits, where they are from, their licence, and whether they are here."""
    import rich
    from rich.table import Table

    from isotune.data import DATASETS, available

    table = Table("Dataset", "Rows", "From", "Licence", "Here")
    for name, dataset in DATASETS.items():
        rows = ", ".join(f"{split} {part.rows:,}" for split, part in dataset.splits.items())
        rows = rows or " + ".join(dataset.union)
        table.add_row(name, rows, dataset.source, dataset.licence, "yes" if available(name) else "no")
    rich.print(table)

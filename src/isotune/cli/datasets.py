"""`isotune datasets`: the table of named datasets."""

from __future__ import annotations


def datasets() -> None:
    """List the named datasets: whether they are on this machine, their sizes, their kind, source and licence.

    Where only some rows have a score or label, their number comes first.
    """
    import rich
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from isotune.data import DATASETS, Sentence, available

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("Dataset", "Here", "Rows"):
        table.add_column(column, no_wrap=True)
    table.add_column("Kind of row, source, licence")
    for name, dataset in DATASETS.items():
        rows = []
        for split, part in dataset.splits.items():
            if Sentence in dataset.row_types or part.gold_count == part.row_count:
                rows.append(f"{split} {part.row_count:,}")
            elif part.gold_count:
                rows.append(f"{split} {part.gold_count:,} of {part.row_count:,}")
            else:
                rows.append(f"{split} {part.row_count:,} as text")
        kinds = " and ".join(row_type.__name__ for row_type in dataset.row_types)
        about = Text(f"{kinds}\n{dataset.citation}\n{dataset.licence}")
        table.add_row(name, "yes" if available(name) else "no", "\n".join(rows or dataset.union), about)
    rich.print(table)

"""`isotune datasets`: the table of named datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isotune.data import Dataset


def datasets() -> None:
    """List the datasets that isotune knows by name.

    The table shows whether a dataset is on this machine, how many rows each split has, and the kind of row, source
    and licence. "100 of 900" means that 100 of the 900 rows have a score or label.
    """
    from rich.table import Column
    from rich.text import Text

    from isotune.cli.tables import print_table
    from isotune.data import DATASETS, available

    rows = []
    for name, dataset in DATASETS.items():
        kinds = " and ".join(row_type.__name__ for row_type in dataset.row_types)
        about = Text(f"{kinds}\n{dataset.citation}\n{dataset.licence}")
        rows.append((name, "yes" if available(name) else "no", "\n".join(_sizes(dataset) or dataset.union), about))
    columns = [Column(header, no_wrap=True) for header in ("Dataset", "Here", "Rows")]
    print_table([*columns, "Kind of row, source, licence"], rows)


def _sizes(dataset: Dataset) -> list[str]:
    """The number of rows of each split, such as "train 5,749"."""
    from isotune.data import Sentence

    sizes = []
    for name, split in dataset.splits.items():
        if Sentence in dataset.row_types or split.gold_count == split.row_count:
            sizes.append(f"{name} {split.row_count:,}")
        elif split.gold_count:
            sizes.append(f"{name} {split.gold_count:,} of {split.row_count:,}")
        else:
            sizes.append(f"{name} {split.row_count:,} as text")
    return sizes

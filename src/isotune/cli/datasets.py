"""`isotune datasets`: the table of named datasets; and `isotune datasets fetch`, which brings them to this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from isotune.cli.parameters import LIST_JSON, for_the_list
from isotune.errors import InputError

if TYPE_CHECKING:
    from isotune.data import Dataset

WORDS = "Nothing, to list the datasets; or fetch and the names of datasets, such as fetch all-nli sts12."


def datasets(*words: Annotated[str, Parameter(help=WORDS)], as_json: Annotated[bool, LIST_JSON] = False) -> None:
    """List the datasets that isotune knows by name, or fetch some.

    The table shows whether a dataset is on this machine, how many rows each split has, and the kind of row, source
    and licence. "100 of 900" means that 100 of the 900 rows have a score or label.

    fetch brings datasets from their public sources to this machine, and checks them. A name may also be a source on the
    Hugging Face hub, as hub:OWNER/NAME. It prints the size first, and continues if it was broken off. Afterwards the
    datasets can be read with HF_HUB_OFFLINE=1.
    """
    if words:
        action, *names = words
        if action != "fetch" or not names:
            raise InputError(
                f"{' '.join(words)}: write isotune datasets fetch NAME..., or isotune datasets for the list"
            )
        from isotune.cli.fetching import fetch_all

        for_the_list(as_json)
        fetch_all(names)
        return
    if as_json:
        _print_json()
    else:
        _list()


def _print_json() -> None:
    from isotune.cli.tables import print_json
    from isotune.data import DATASETS, available

    print_json(
        [
            {
                "name": name,
                "here": available(name),
                "rows": {split: part.row_count for split, part in dataset.splits.items() if part.row_count >= 0},
                "scored": {split: part.gold_count for split, part in dataset.splits.items() if part.gold_count >= 0},
                "union": dataset.union,
                "row_types": [row_type.__name__ for row_type in dataset.row_types],
                "citation": dataset.citation,
                "licence": dataset.licence,
            }
            for name, dataset in DATASETS.items()
        ]
    )


def _list() -> None:
    from rich.table import Column
    from rich.text import Text

    from isotune.cli.tables import print_table
    from isotune.data import DATASETS, available

    rows = []
    for name, dataset in DATASETS.items():
        kinds = " and ".join(row_type.__name__ for row_type in dataset.row_types)
        about = Text(f"{kinds}\n{dataset.citation}\n{dataset.licence}")
        public = dataset.hub or dataset.web or ("with isotune" if name == "stsb-open" else "")
        about.append(f"\n{public}" if public else "")
        rows.append((name, "yes" if available(name) else "no", "\n".join(_sizes(dataset) or dataset.union), about))
    columns = [Column(header, no_wrap=True) for header in ("Dataset", "Here", "Rows")]
    print_table([*columns, Column("Kind of row, source, licence", overflow="fold")], rows)


def _sizes(dataset: Dataset) -> list[str]:
    """The number of rows of each split, such as "train 5,749"."""
    from isotune.data import Sentence

    sizes = []
    for name, split in dataset.splits.items():
        rows, gold = (f"{count:,}" if count >= 0 else "?" for count in (split.row_count, split.gold_count))
        if Sentence in dataset.row_types or gold == rows:
            sizes.append(f"{name} {rows}")
        elif not split.gold_count:
            sizes.append(f"{name} {rows} as text")
        else:
            sizes.append(f"{name} {gold} of {rows}")
    return sizes

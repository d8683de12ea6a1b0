"""`isotune datasets`: the table of named datasets; and `isotune datasets fetch`, which brings them to this machine."""

from collections.abc import Iterable
from functools import partial
from typing import Annotated, Literal

from cyclopts import Parameter

from isotune.bundled import local_model
from isotune.cli.parameters import LIST_JSON, for_the_list
from isotune.data import DATASETS, Dataset, Sentence, available
from isotune.errors import InputError, counted

NAME = "The datasets to fetch, such as all-nli sts12."


def datasets(
    action: Annotated[
        Literal["fetch"] | None, Parameter(help="Without fetch, the datasets are listed.")
    ] = None,
    /,
    *name: Annotated[str, Parameter(help=NAME)],
    as_json: Annotated[bool, LIST_JSON] = False,
) -> None:
    """The table shows whether a dataset is on this machine, how many rows each split has, and the kind of row, source
    and licence. "100 of 900" means that 100 of the 900 rows have a score or label.

    fetch brings datasets from their public sources to this machine, and checks them. A name may also be a source on the
    Hugging Face hub, as hub:OWNER/NAME. It continues if it was broken off. Afterwards the datasets can be read with
    HF_HUB_OFFLINE=1.
    """
    if not action:
        _list(as_json)
        return
    for_the_list(as_json)
    if not name:
        raise InputError("fetch: name at least one dataset, as in isotune datasets fetch stsb")
    fetch_all(name)


def fetch_all(datasets: Iterable[str], models: Iterable[str] = ()) -> None:
    """Fetches what is not on this machine, and reads every dataset once to check it."""
    from isotune.cli.tables import stdout_console
    from isotune.data.fetch import check_fetched, fetch

    say, names = partial(stdout_console().print, soft_wrap=True), list(datasets)
    for place in fetch(names):
        say(f"fetching: {place}")
    for model in filter(lambda name: not local_model(name), models):
        from isotune.encoder import local_folder  # imports torch

        say(f"fetching: {model}")
        local_folder(model)
    for split, count in check_fetched(names):
        say(f"checked: {split}, {counted(count, 'row')}")


def _list(as_json: bool) -> None:
    from rich.table import Column
    from rich.text import Text

    from isotune.cli.tables import print_list

    entries, rows = [], []
    for name, dataset in DATASETS.items():
        kinds, here = [row_type.__name__ for row_type in dataset.row_types], available(name)
        entries.append(
            {
                "name": name,
                "here": here,
                "rows": {
                    split: part.row_count
                    for split, part in dataset.splits.items()
                    if part.row_count >= 0
                },
                "scored": {
                    split: part.gold_count
                    for split, part in dataset.splits.items()
                    if part.gold_count >= 0
                },
                "union": dataset.union,
                "row_types": kinds,
                "citation": dataset.citation,
                "licence": dataset.licence,
            }
        )
        about = Text(f"{' and '.join(kinds)}\n{dataset.citation}\n{dataset.licence}")
        public = dataset.hub or dataset.web or ("with isotune" if name == "stsb-open" else "")
        about.append(f"\n{public}" if public else "")
        rows.append(
            (name, "yes" if here else "no", "\n".join(_sizes(dataset) or dataset.union), about)
        )
    columns = [Column(header, no_wrap=True) for header in ("Dataset", "Here", "Rows")]
    print_list(
        as_json, entries, [*columns, Column("Kind of row, source, licence", overflow="fold")], rows
    )


def _sizes(dataset: Dataset) -> list[str]:
    """The number of rows of each split, such as "train 5,749", or how many have a score or label: "dev 100 of 900"."""
    sizes = []
    for name, split in dataset.splits.items():
        gold, rows = (
            f"{count:,}".replace("-1", "?") for count in (split.gold_count, split.row_count)
        )
        sizes.append(
            f"{name} {rows}"
            if Sentence in dataset.row_types or gold == rows
            else f"{name} {gold} of {rows}"
        )
    return sizes

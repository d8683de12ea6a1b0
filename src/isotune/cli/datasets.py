"""`isotune datasets`: the table of named datasets.

`isotune datasets fetch` brings datasets to this machine.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

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
    """The table shows whether a dataset is on this machine, how many rows each split has, and the
    kind of row, source and licence. "100 of 900" means that 100 of the 900 rows have a score or
    label.

    fetch brings datasets from their public sources to this machine, and checks them. A name may
    also be a source on the Hugging Face hub, as hub:OWNER/NAME. It continues if it was broken off.
    Afterwards the datasets can be read with HF_HUB_OFFLINE=1.
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

    console = stdout_console()
    names = list(datasets)
    for place in fetch(names):
        console.print(f"fetching: {place}", soft_wrap=True)
    for model in models:
        if local_model(model):
            continue
        # This imports torch.
        from isotune.encoder import local_folder

        console.print(f"fetching: {model}", soft_wrap=True)
        local_folder(model)
    for split, count in check_fetched(names):
        console.print(f"checked: {split}, {counted(count, 'row')}", soft_wrap=True)


def _list(as_json: bool) -> None:
    from rich.table import Column

    from isotune.cli.tables import print_json, print_table

    here = {name: available(name) for name in DATASETS}
    if as_json:
        print_json([_entry(name, dataset, here[name]) for name, dataset in DATASETS.items()])
        return
    columns = [
        Column("Dataset", no_wrap=True),
        Column("Here", no_wrap=True),
        Column("Rows", no_wrap=True),
        Column("Kind of row, source, licence", overflow="fold"),
    ]
    rows = [_row(name, dataset, here[name]) for name, dataset in DATASETS.items()]
    print_table(columns, rows)


def _entry(name: str, dataset: Dataset, here: bool) -> dict[str, Any]:
    """A dataset in the list as JSON."""
    rows = {split: part.row_count for split, part in dataset.splits.items()}
    scored = {split: part.gold_count for split, part in dataset.splits.items()}
    return {
        "name": name,
        "here": here,
        "rows": _known_counts(rows),
        "scored": _known_counts(scored),
        "union": dataset.union,
        "row_types": _row_types(dataset),
        "citation": dataset.citation,
        "licence": dataset.licence,
    }


def _known_counts(counts: dict[str, int]) -> dict[str, int]:
    """Leaves out splits whose number of rows nobody knows."""
    return {split: count for split, count in counts.items() if count >= 0}


def _row(name: str, dataset: Dataset, here: bool) -> tuple[str, str, str, str]:
    """A dataset in the table."""
    is_here = "yes" if here else "no"
    sizes = "\n".join(_sizes(dataset) or dataset.union)
    about = [" and ".join(_row_types(dataset)), dataset.citation, dataset.licence]
    public = dataset.hub or dataset.web
    if public:
        about.append(str(public))
    elif name == "stsb-open":
        about.append("with isotune")
    return name, is_here, sizes, "\n".join(about)


def _row_types(dataset: Dataset) -> list[str]:
    return [row_type.__name__ for row_type in dataset.row_types]


def _sizes(dataset: Dataset) -> list[str]:
    """The number of rows of each split, such as "train 5,749".

    Where only some rows have a score or label, both numbers are told: "dev 100 of 900".
    """
    sizes = []
    for name, split in dataset.splits.items():
        rows = _count(split.row_count)
        gold = _count(split.gold_count)
        if Sentence in dataset.row_types or gold == rows:
            sizes.append(f"{name} {rows}")
        else:
            sizes.append(f"{name} {gold} of {rows}")
    return sizes


def _count(number: int) -> str:
    """The number of rows; "?" for -1, which says that nobody knows it."""
    if number == -1:
        return "?"
    return f"{number:,}"

"""The named datasets: the rows they hold, where they are published, which files hold them, their licences.

The facts are in the TOML files here. Each table is a dataset. Its keys are the attributes of `Dataset`, and:

- `file` and `sha256` hold for every split that does not give its own;
- a split without `gold_count` has a score or label in every row;
- `like` names another table of the file; the dataset has all keys of that table that it does not give itself.

A dataset's public source is on the Hugging Face hub (`hub`) or elsewhere on the web (`web`). A file in `$ISOTUNE_DATA`
holds the same rows, as lines of text or as tab-separated columns with a header. A split without a file names the
dataset that stands in for it on machines that can't reach the public source (`stand_in`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from isotune.data.hub import HubSource
from isotune.data.rows import ROW_TYPES, Row, ScoredPair
from isotune.errors import telling
from isotune.files import read_toml, toml_files
from isotune.registry import Registry


@dataclass(frozen=True)
class Split:
    """Where a split is and what it must hold."""

    file: str  # the path relative to `$ISOTUNE_DATA`, empty if there is none; splits and datasets can share a file
    sha256: str  # of the file's uncompressed content
    row_count: int  # pairs in the split (sentences, if the split has no pairs); -1 if nobody has counted them
    gold_count: int  # rows with a score or label, -1 if nobody has counted them; rows without are read as text
    rows_in_file: int  # of row_count, those that the file has; STS17's track 6 has more
    names_in_file: Sequence[
        str
    ] = ()  # in the file's column "split"; empty if that is the split's own name
    part: str = ""  # the split in the public source: a split's name, a path in an archive, or the end of an address
    web_sha256: str = ""  # of the file of the split on the web; empty if it isn't known
    stand_in: str = (
        ""  # the source that can take the place of a split without a file; empty if there is none
    )


@dataclass(frozen=True)
class Dataset:
    """A dataset with a name."""

    name: str  # as the user writes it
    citation: str  # what to cite
    licence: str  # in a few words
    splits: Mapping[
        str, Split
    ]  # the splits by their uniform names (train, dev, test); none if the dataset is a union
    row_types: tuple[type[Row], ...] = (
        ScoredPair,
    )  # of its rows; the sentences of every dataset can be read too
    union: Sequence[
        str
    ] = ()  # the datasets whose sentences make up this one, with all of their splits
    scores: Sequence[float] = (0.0, 5.0)  # the lowest and the highest score possible
    positive: str = (
        ""  # the label, in lower case, of pairs that mean the same; empty if pairs have no label
    )
    # Label in the source -> label as it is read; other labels are read as they are.
    labels: Mapping[str, str] = field(default_factory=dict)
    subset: str = (
        ""  # the value of the file's column "subset" in its rows, if datasets share a file
    )
    blank: str = ""  # the text that takes the place of a blank sentence; empty if there are no blank sentences
    gold_of: str = ""  # the dataset with the scores or labels of pairs that have none here; empty if there is none
    hub: HubSource | None = None  # the public source, if it is on the Hugging Face hub
    web: str = (
        ""  # the public source's address elsewhere; if it ends in "/", the split's part follows
    )
    layout: str = ""  # how a public file is read (`data/layouts.py`), if its ending doesn't tell


def _dataset(name: str, table: dict[str, Any], folder: Path) -> Dataset:
    file: dict[str, Any] = {key: table.pop(key, "") for key in ("file", "sha256")}
    splits = {
        split: _split({**file, **facts}, folder) for split, facts in table.pop("splits", {}).items()
    }
    table.pop("like", None)
    if "row_types" in table:
        table["row_types"] = tuple(ROW_TYPES[kind] for kind in table["row_types"])
    if "hub" in table:
        table["hub"] = HubSource(**table["hub"])
    return Dataset(name=name, splits=splits, **table)


def _split(table: dict[str, Any], folder: Path) -> Split:
    counts = {"gold_count": table["row_count"], "rows_in_file": table["row_count"]}
    file = table.pop("file")
    return Split(file=str(folder / file) if file else "", **{**counts, **table})


def _read(name: str | Path, folder: Path = Path()) -> dict[str, Dataset]:
    tables = read_toml("datasets", name, _FILES)
    return {
        key: _dataset(key, {**tables.get(table.get("like"), {}), **table}, folder)
        for key, table in tables.items()
    }


def add_datasets(path: str | Path) -> None:
    """Registers the datasets of a TOML file. The path of a dataset's `file` is relative to the folder of that file.

    Raises:
        InputError: the file can't be read, a table lacks a key or has an unknown one, or a name is taken.
    """
    problem = f"datasets {path}: a table lacks a key or has an unknown one"
    with telling((TypeError, KeyError, AttributeError), problem):
        datasets = _read(Path(path), Path(path).resolve().parent)
    for name, dataset in datasets.items():
        DATASETS.add(name, dataset, str(Path(path).resolve()))


_FILES = toml_files(resources.files(__name__))
DATASETS: Registry[Dataset] = Registry(
    "dataset", {name: dataset for file in _FILES for name, dataset in _read(file).items()}
)
"""The datasets by name."""

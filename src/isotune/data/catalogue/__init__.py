"""The named datasets: their rows, where they are published, which files hold them, licences.

The facts are in the TOML files here. Each table is a dataset. Its keys are the attributes of
`Dataset`, and:

- `file` and `sha256` hold for every split that does not give its own;
- a split without `gold_count` has a score or label in every row;
- `like` names another table of the file; the dataset has all keys of that table that it does not
  give itself.

A dataset's public source is on the Hugging Face hub (`hub`) or elsewhere on the web (`web`). A file
in `$ISOTUNE_DATA` holds the same rows, as lines of text or as tab-separated columns with a header.
A split without a file names the dataset that stands in for it on machines that can't reach the
public source (`stand_in`); or the dataset names one for all of its splits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from isotune.data.hub import HubSource
from isotune.data.rows import ROW_TYPES, Row, ScoredPair
from isotune.errors import as_input_error
from isotune.files import read_toml, toml_files
from isotune.registry import Registry


@dataclass(frozen=True)
class Split:
    """Where a split is and what it must hold."""

    file: str
    """The path relative to `$ISOTUNE_DATA`; empty if there is none. Splits can share a file."""

    sha256: str
    """The hash of the file's uncompressed content."""

    row_count: int
    """Pairs in the split, or sentences, if it has no pairs; -1 if nobody has counted them."""

    gold_count: int
    """Rows with a score or label; -1 if nobody has counted them. Rows without are read as text."""

    rows_in_file: int
    """Those of `row_count` that the file has. STS17's track 6 has more."""

    names_in_file: Sequence[str] = ()
    """The names in the file's column "split"; empty if that is the split's own name."""

    part: str = ""
    """The split in the public source: a name, a path in an archive, or the end of an address."""

    web_sha256: str = ""
    """The hash of the split's file on the web; empty if it isn't known."""

    stand_in: str = ""
    """The source that can take the place of a split without a file; empty if there is none."""


@dataclass(frozen=True)
class Dataset:
    """A dataset with a name."""

    name: str
    """The name, as the user writes it."""

    citation: str
    """What to cite."""

    licence: str
    """The licence, in a few words."""

    splits: Mapping[str, Split]
    """The splits by their uniform names (train, dev, test); none if the dataset is a union."""

    row_types: tuple[type[Row], ...] = (ScoredPair,)
    """The types of its rows. The sentences of every dataset can be read too."""

    union: Sequence[str] = ()
    """The datasets whose sentences make up this one, with all of their splits."""

    scores: Sequence[float] = (0.0, 5.0)
    """The lowest and the highest score possible."""

    positive: str = ""
    """The label, in lower case, of pairs that mean the same; empty if pairs have no label."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """For a label in the source, the label as it is read. Other labels are read as they are."""

    subset: str = ""
    """The value of the file's column "subset" in its rows, if datasets share a file."""

    blank: str = ""
    """The text that takes the place of a blank sentence; empty if there are no blank sentences."""

    stand_in: str = ""
    """The dataset with the same rows whose text can take the place of this one's, split by split.

    It is empty if there is none.
    """

    gold_of: str = ""
    """The dataset with the scores or labels of pairs that lack them; empty if there is none."""

    hub: HubSource | None = None
    """The public source, if it is on the Hugging Face hub."""

    web: str = ""
    """The public source's address elsewhere. If it ends in "/", the split's part follows."""

    layout: str = ""
    """How a public file is read (`data/layouts.py`), if its ending doesn't tell."""


def _dataset(name: str, table: dict[str, Any], folder: Path) -> Dataset:
    """Makes a dataset of its table. Paths of files are relative to the folder."""
    shared = {"file": table.pop("file", ""), "sha256": table.pop("sha256", "")}
    splits = {}
    for split, facts in table.pop("splits", {}).items():
        splits[split] = _split({**shared, **facts}, folder)
    table.pop("like", None)
    if "row_types" in table:
        table["row_types"] = tuple(ROW_TYPES[kind] for kind in table["row_types"])
    if "hub" in table:
        table["hub"] = HubSource(**table["hub"])
    return Dataset(name=name, splits=splits, **table)


def _split(table: dict[str, Any], folder: Path) -> Split:
    counts = {"gold_count": table["row_count"], "rows_in_file": table["row_count"]}
    file = table.pop("file")
    if file:
        file = str(folder / file)
    return Split(file=file, **{**counts, **table})


def _read(name: str | Path, folder: Path = Path()) -> dict[str, Dataset]:
    """The datasets of a file by name."""
    tables = read_toml("datasets", name, _FILES)
    datasets = {}
    for key, table in tables.items():
        like = tables.get(table.get("like"), {})
        datasets[key] = _dataset(key, {**like, **table}, folder)
    return datasets


def _read_all() -> dict[str, Dataset]:
    """The datasets of all files here."""
    datasets: dict[str, Dataset] = {}
    for file in _FILES:
        datasets |= _read(file)
    return datasets


def add_datasets(path: str | Path) -> None:
    """Registers the datasets of a TOML file.

    The path of a dataset's `file` is relative to the folder of that file.

    Raises:
        InputError: the file can't be read, a table lacks a key or has an unknown one, or a name is
            taken.
    """
    problem = f"datasets {path}: a table lacks a key or has an unknown one"
    # A circle of links is a RuntimeError, and a NUL byte in the name a ValueError.
    with as_input_error((OSError, RuntimeError, ValueError), f"datasets {path}: it can't be read"):
        file = Path(path).resolve()
    with as_input_error((TypeError, KeyError, AttributeError), problem):
        datasets = _read(Path(path), file.parent)
    for name, dataset in datasets.items():
        DATASETS.add(name, dataset, str(file))


_FILES = toml_files(resources.files(__name__))
DATASETS: Registry[Dataset] = Registry("dataset", _read_all())
"""The datasets by name."""

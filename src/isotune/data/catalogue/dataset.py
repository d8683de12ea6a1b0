"""What the catalogue says of a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from isotune.data.rows import Row, ScoredPair


@dataclass(frozen=True)
class Split:
    """Where a split is and what must be in it.

    Attributes:
        file: Relative to `$ISOTUNE_DATA`; the splits of a dataset can share one.
        sha256: Of the file's uncompressed content.
        rows: Pairs in it (sentences, where the file has no pairs).
        gold: Those with a score or label; the others are read as text only.
        inside: What the file's column "split" calls it, if not by its uniform name.
    """

    file: str
    sha256: str
    rows: int
    gold: int = 0
    inside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dataset:
    """What is known of a dataset.

    Attributes:
        name: As the user writes it.
        licence: In a few words.
        source: What to cite.
        splits: Their uniform names (train, dev, test) and where each is; none where the dataset is a union.
        kinds: The kinds of row in its files; sentences can be had of all.
        union: The datasets whose text this one is, all splits of each.
        scores: The least and the greatest score possible.
        positive: The label of pairs that mean the same, in any case; empty where pairs have no label.
        labels: Labels as a file writes them -> as they are read; the others stand as they are.
        subset: What the column "subset" of a file that several datasets share calls this one; else empty.
        blank: What a blank text is read as; empty where the dataset has none.
        hub: The Hugging Face hub's copy, "owner/name" or "owner/name@revision"; empty where there is none.
    """

    name: str
    licence: str
    source: str
    splits: Mapping[str, Split]
    kinds: tuple[type[Row], ...] = (ScoredPair,)
    union: tuple[str, ...] = ()
    scores: tuple[float, float] = (0.0, 5.0)
    positive: str = ""
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    subset: str = ""
    blank: str = ""
    hub: str = ""


def splits_of(
    file: str, sha256: str, inside: Mapping[str, tuple[str, ...]] | None = None, **sizes: tuple[int, int]
) -> Mapping[str, Split]:
    """Splits that share a file; the sizes are (rows, gold)."""
    names = inside or {}
    return MappingProxyType({split: Split(file, sha256, *size, names.get(split, ())) for split, size in sizes.items()})

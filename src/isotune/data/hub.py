"""Datasets on the Hugging Face hub, read by the library `datasets`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from isotune.data.rows import Records
from isotune.errors import InputError


@dataclass(frozen=True)
class HubSource:
    """A dataset on the hub."""

    repository: str  # "owner/name"
    revision: str = ""  # a branch, a tag or a commit; empty for the main branch
    splits: Mapping[str, str] = field(default_factory=dict)  # our name of a split -> the hub's, where it is another

    @classmethod
    def parse(cls, text: str) -> HubSource:
        """The dataset that "owner/name" or "owner/name@revision" names."""
        repository, _, revision = text.partition("@")
        return cls(repository, revision)

    def __str__(self) -> str:
        return f"hub:{self.repository}{self.revision and f'@{self.revision}'}"


def read_hub(source: HubSource, split: str) -> Records:
    """Streams the records of a split.

    Raises:
        InputError: the hub, the dataset or the split can't be reached or read.
    """
    import datasets

    split = source.splits.get(split, split)
    try:
        rows = datasets.load_dataset(source.repository, split=split, revision=source.revision or None, streaming=True)
        yield from enumerate(rows, 1)
    except Exception as error:  # libraries below raise errors of many classes
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(f"{source}:{split}: can't be read from the Hugging Face hub ({reason})") from error

"""Splits of named datasets where they are published: on the Hugging Face hub, or elsewhere on the web."""

from __future__ import annotations

import hashlib
from pathlib import Path

from isotune.data.catalogue import Dataset, Split
from isotune.data.hub import find_fetched, open_hub
from isotune.data.layouts import LAYOUTS
from isotune.data.records import Opened
from isotune.data.rows import Records
from isotune.data.web import fetch_web, web_file
from isotune.errors import InputError


def open_published(dataset: Dataset, split: str, *, labelled: bool) -> Opened:
    """A split in its public source. What has been fetched is not asked for again.

    With `labelled`, class labels are given by their names, and rows without a label are left out.

    Raises:
        InputError: there is no public source, or it can't be reached; with the first record: it can't be read.
    """
    facts = dataset.splits[split]
    try:
        if dataset.hub:
            part = facts.part or ("" if dataset.hub.file else split)
            source = open_hub(dataset.hub, part, labelled=labelled, layout=dataset.layout, fetched_first=True)
        elif dataset.web:
            address = web_address(dataset, facts)
            path = fetch_web(address)
            _check(path, facts.web_sha256)
            source = Opened(address, LAYOUTS[dataset.layout](path, facts.part))
        else:
            raise InputError("it is not published")
    except InputError as error:
        raise _advice(dataset, split, error) from error
    return Opened(source.place, _advised(dataset, split, source.records), source.commits)


def is_fetched(dataset: Dataset, split: Split) -> bool:
    """Whether the public source of a split has been fetched to this machine."""
    if dataset.hub:
        return find_fetched(dataset.hub) is not None
    return bool(dataset.web) and web_file(web_address(dataset, split)).exists()


def web_address(dataset: Dataset, split: Split) -> str:
    """The address of a split's file on the web."""
    return dataset.web + split.part if dataset.web.endswith("/") else dataset.web


def _check(path: Path, sha256: str) -> None:
    """Compares a fetched file with the SHA-256 of the dataset's file, if that is known."""
    if not sha256:
        return
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256:
        raise InputError(
            f"{path}: its SHA-256 is {digest}, but that of the dataset's file {sha256}; remove this file, to fetch it "
            "again"
        )


def _advised(dataset: Dataset, split: str, records: Records) -> Records:
    try:
        yield from records
    except InputError as error:
        raise _advice(dataset, split, error) from error


def _advice(dataset: Dataset, split: str, error: InputError) -> InputError:
    """The error, with what to do about it."""
    facts = dataset.splits[split]
    ways = [f"set ISOTUNE_DATA to a folder with {facts.file}"] if facts.file else []
    ways += ["be online"] if dataset.hub or dataset.web else []
    ways += [f"take what stands in for it, {facts.stand_in} (--stand-ins)"] if facts.stand_in else []
    return InputError(f"{dataset.name}:{split}: {', or '.join(ways)}; {error}")

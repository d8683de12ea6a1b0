"""Splits of named datasets where they are published: on the Hugging Face hub, or single files elsewhere on the web.

Files of the web are fetched into the user's cache folder, whole or not at all.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

from isotune.data.cache import cache_folder
from isotune.data.catalogue import Dataset, Split
from isotune.data.hub import WAIT, find_fetched, open_hub
from isotune.data.layouts import read_layout
from isotune.data.records import Opened
from isotune.data.rows import Records
from isotune.errors import InputError, telling
from isotune.files import file_sha256, written

LARGEST = 100_000_000  # bytes of a file; the longest has some 142,000 pairs


def open_published(dataset: Dataset, split: str, *, labelled: bool) -> Opened:
    """A split in its public source. What has been fetched is not asked for again."""
    facts = dataset.splits[split]
    with _advice(dataset, split):
        if dataset.hub:
            part = facts.part or ("" if dataset.hub.file else split)
            source = open_hub(
                dataset.hub, part, labelled=labelled, layout=dataset.layout, fetched_first=True
            )
        elif dataset.web:
            path = fetch_web(web_address(dataset, facts), facts.web_sha256)
            source = Opened(
                web_address(dataset, facts), read_layout(dataset.layout, path, facts.part)
            )
        else:
            raise InputError("it is not published")

    def records() -> Records:
        with _advice(dataset, split):
            yield from source.records

    return Opened(source.place, records(), source.commits)


@contextmanager
def _advice(dataset: Dataset, split: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        facts = dataset.splits[split]
        ways = [f"set ISOTUNE_DATA to a folder with {facts.file}"] if facts.file else []
        ways += ["be online"] if dataset.hub or dataset.web else []
        ways += (
            [f"take what stands in for it, {facts.stand_in} (stand_ins)"] if facts.stand_in else []
        )
        raise InputError(f"{dataset.name}:{split}: {', or '.join(ways)}; {error}") from error


def is_fetched(dataset: Dataset, split: Split) -> bool:
    """Whether the public source of a split has been fetched to this machine."""
    if dataset.hub:
        return find_fetched(dataset.hub) is not None
    return bool(dataset.web) and web_file(web_address(dataset, split)).exists()


def web_address(dataset: Dataset, split: Split) -> str:
    """The address of a split's file on the web."""
    return dataset.web + split.part if dataset.web.endswith("/") else dataset.web


def web_file(address: str) -> Path:
    """Where the file of an address is kept; it may not be there yet."""
    parts = urlsplit(address)
    return cache_folder("") / "web" / f"{parts.netloc.replace(':', '-')}{parts.path}"


def fetch_web(address: str, sha256: str = "") -> Path:
    """The file of an address, fetched unless it is there."""
    from huggingface_hub import constants

    path = web_file(address)
    if not path.exists():
        if constants.HF_HUB_OFFLINE:
            raise InputError(f"{address}: not fetched yet, and HF_HUB_OFFLINE is set")
        failed = telling((HTTPException, OSError), f"{address}: it can't be fetched")
        with failed, urlopen(address, timeout=WAIT) as answer:
            content = answer.read(LARGEST)
            if len(content) == LARGEST:
                raise InputError(
                    f"{address}: it has {LARGEST:,} bytes or more, so it is not the dataset's file"
                )
            answer.read()  # an error, if the file was cut off
        with written(path) as part:
            part.write_bytes(content)
    if sha256 and (digest := file_sha256(path)) != sha256:
        raise InputError(
            f"{path}: its SHA-256 is {digest}, but that of the dataset's file {sha256}; remove this file, to fetch it "
            "again"
        )
    return path

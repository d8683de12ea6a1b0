"""Splits of named datasets where they are published: on the Hugging Face hub, or on the web.

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
from isotune.data.hub import WAIT, find_fetched, open_hub, say_if_waiting
from isotune.data.layouts import read_layout
from isotune.data.records import Opened
from isotune.data.rows import Records
from isotune.errors import InputError, as_input_error
from isotune.files import atomic_write, file_sha256

LARGEST = 100_000_000
"""Bytes of a file. The longest has some 142,000 pairs."""

_HTML = (b"<!doctype html", b"<html")
"""The beginnings of a page for a browser, in lower case."""


def open_published(dataset: Dataset, split: str, *, labelled: bool) -> Opened:
    """A split in its public source. What has been fetched is not asked for again."""
    with _advice(dataset, split):
        source = _open(dataset, split, labelled)

    def records() -> Records:
        with _advice(dataset, split):
            yield from source.records

    return Opened(source.place, records(), source.commits)


def published_content(dataset: Dataset, split: str) -> str:
    """What stands for the content of a split in its public source.

    It is the commit on the hub, or the SHA-256 of the file of the web, which is fetched.

    Raises:
        InputError: the public source can't be reached, or there is none.
    """
    source = open_published(dataset, split, labelled=False)
    if dataset.hub:
        return source.commits[str(dataset.hub)]
    return file_sha256(web_file(web_address(dataset, dataset.splits[split])))


def _open(dataset: Dataset, split: str, labelled: bool) -> Opened:
    facts = dataset.splits[split]
    if dataset.hub:
        part = facts.part
        if not part and not dataset.hub.file:
            part = split
        return open_hub(
            dataset.hub, part, labelled=labelled, layout=dataset.layout, fetched_first=True
        )
    if dataset.web:
        address = web_address(dataset, facts)
        path = fetch_web(address, facts.web_sha256)
        return Opened(address, read_layout(dataset.layout, path, facts.part))
    raise InputError("it is not published")


@contextmanager
def _advice(dataset: Dataset, split: str) -> Iterator[None]:
    """Puts what a person can do before the reason why a split can't be read."""
    try:
        yield
    except InputError as error:
        facts = dataset.splits[split]
        ways = []
        if facts.file:
            ways.append(f"set ISOTUNE_DATA to a folder with {facts.file}")
        if dataset.hub or dataset.web:
            ways.append("be online")
        stand_in = facts.stand_in
        if dataset.stand_in:
            stand_in = f"{dataset.stand_in}:{split}"
        if stand_in:
            ways.append(f"take what stands in for it, {stand_in} (stand_ins)")
        raise InputError(f"{dataset.name}:{split}: {', or '.join(ways)}; {error}") from error


def is_fetched(dataset: Dataset, split: Split) -> bool:
    """Whether the public source of a split has been fetched to this machine."""
    if dataset.hub:
        return find_fetched(dataset.hub) is not None
    return bool(dataset.web) and web_file(web_address(dataset, split)).exists()


def web_address(dataset: Dataset, split: Split) -> str:
    """The address of a split's file on the web."""
    if dataset.web.endswith("/"):
        return dataset.web + split.part
    return dataset.web


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
            raise InputError(
                f"{address}: not fetched yet, and HF_HUB_OFFLINE is set; unset it where there is a "
                f"network, or put the file at {path}"
            )
        content = _download(address, path)
        with atomic_write(path) as part:
            part.write_bytes(content)
    if sha256:
        digest = file_sha256(path)
        if digest != sha256:
            raise InputError(
                f"{path}: its SHA-256 is {digest}, but that of the dataset's file {sha256}; remove "
                "this file, to fetch it again"
            )
    return path


def _download(address: str, path: Path) -> bytes:
    """The content at an address, whole. `path` is where the file will be kept."""
    advice = f"; check the network and its proxy, or put the file at {path}"
    with as_input_error((HTTPException, OSError), f"{address}: it can't be fetched", advice):
        with say_if_waiting(address):
            answer = urlopen(address, timeout=WAIT)
        with answer:
            content: bytes = answer.read(LARGEST)
            if len(content) == LARGEST:
                raise InputError(
                    f"{address}: it has {LARGEST:,} bytes or more, so it is not the dataset's file"
                )
            # This read raises an error if the file was cut off.
            answer.read()
    if content[:100].lstrip().lower().startswith(_HTML):
        raise InputError(
            f"{address}: its answer is a page for a browser, perhaps to log in to a network or a "
            f"proxy, and not the dataset's file{advice}"
        )
    return content

"""What stands for the content that a source has on this machine: hashes of files, and commits.

A named dataset may be read from the hub on one machine and from a file on another, and the texts of
the two may differ. Their contents then differ, too.
"""

import glob
from pathlib import Path

from isotune.data.catalogue import DATASETS
from isotune.data.datasets import dataset_contents
from isotune.data.fetch import members
from isotune.data.hub import HubSource, open_hub
from isotune.errors import InputError
from isotune.files import file_sha256


def content_of(source: str) -> list[str]:
    """What stands for the content that is read from a source.

    These are the SHA-256 of each file, the commit of each place on the hub, and nothing for what
    can't be read on this machine. The hub is asked for the commit of what was not fetched before.
    """
    try:
        return _contents(source)
    except InputError:
        return []


def _contents(source: str) -> list[str]:
    if source.startswith("hub:"):
        place, _, split = source.removeprefix("hub:").partition(":")
        return list(open_hub(HubSource.parse(place), split, labelled=False).commits.values())
    if source.partition(":")[0] in DATASETS:
        contents = []
        for member in members(source):
            contents += dataset_contents(member)
        return contents
    return [file_sha256(file) for file in _files_of(source)]


def _files_of(source: str) -> list[Path]:
    """The files of a path, of a folder with all that is in it, or of a pattern."""
    path = Path(source)
    if path.is_file():
        return [path]
    pattern = source
    if source and path.is_dir():
        pattern = f"{source}/**"
    paths = map(Path, sorted(glob.glob(pattern, recursive=True)))
    return [path for path in paths if path.is_file()]

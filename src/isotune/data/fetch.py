"""Fetches datasets from their public sources to this machine ahead of their use, for machines without a network.

Files of the hub go into the cache of `huggingface_hub`, which continues a fetch that was broken off, and other files
into the user's cache folder. Afterwards each dataset is read once from there, which checks its counts; files that the
hub knows by their SHA-256 are checked by that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from isotune.data.catalogue import DATASETS
from isotune.data.datasets import dataset_records, has_rows
from isotune.data.derived import RowQuery
from isotune.data.hub import HubSource, describe_config, fetch_note, hub_errors, repository_info, without_bars
from isotune.data.published import fetch_web, web_address, web_folder, web_size
from isotune.data.rows import Sentence
from isotune.errors import InputError
from isotune.files import file_sha256, make_folder, write_text


@dataclass(frozen=True)
class Fetch:
    """Something to fetch."""

    name: str  # the place that it is fetched from
    size: int  # the bytes that are not here yet; 0 if the server doesn't tell
    run: Callable[[], object]  # fetches it, with a progress bar
    folder: Path  # that it is fetched into
    commit: str = ""  # of a repository of the hub


def plan_fetch(names: Iterable[str]) -> list[Fetch]:
    """What has to be fetched for datasets, "name" or "name:split", and for "hub:owner/name[...]" sources.

    Each place is there once. A dataset that is on this machine is left out.

    Raises:
        InputError: there is no such dataset, it has no public source, or the source can't be reached.
    """
    fetches: dict[str, Fetch] = {}
    for name in names:
        for place in _places(name):
            if str(place) not in fetches:
                fetches[str(place)] = _plan_hub(place) if isinstance(place, HubSource) else _plan_web(place)
    return [*fetches.values()]


def check_fetched(names: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Reads every split of the datasets; gives its name and the number of its rows.

    Raises:
        InputError: a split can't be read, or it has another number of rows than it should.
    """
    for member in dict.fromkeys(chain.from_iterable(map(members, names))):
        name, _, named = member.partition(":")
        for split in [named] if named else DATASETS[name].splits:
            for source in dataset_records(name, split, RowQuery(Sentence)):
                yield f"{name}:{split}", sum(1 for _ in source.records)


def members(source: str) -> tuple[str, ...]:
    """The datasets that a source, "name" or "name:split", is read with; none if the source is on the hub.

    Raises:
        InputError: there is no such dataset.
    """
    if source.startswith("hub:"):
        return ()
    dataset = DATASETS[source.partition(":")[0]]
    return dataset.union or (source, *filter(None, [dataset.gold_of]))


def _places(source: str) -> Iterator[HubSource | str]:
    """The places to fetch a source from: on the hub, or addresses on the web."""
    if source.startswith("hub:"):
        yield HubSource.parse(source.removeprefix("hub:").partition(":")[0])
    for member in members(source):
        if not has_rows(member):
            yield from places_of(member)


def places_of(member: str) -> list[HubSource | str]:
    """Where a dataset, "name" or "name:split", is published: on the hub, or at addresses on the web.

    Raises:
        InputError: the dataset is not published.
    """
    dataset = DATASETS[member.partition(":")[0]]
    if dataset.hub:
        return [dataset.hub]
    if dataset.web:
        return [web_address(dataset, split) for split in dataset.splits.values()]
    files = ", ".join(dict.fromkeys(split.file for split in dataset.splits.values()))
    raise InputError(f"{member}: it is not published; set ISOTUNE_DATA to a folder with {files}")


def _plan_web(address: str) -> Fetch:
    return Fetch(address, web_size(address), partial(fetch_web, address), web_folder())


def _plan_hub(source: HubSource) -> Fetch:
    from huggingface_hub import constants, snapshot_download

    with hub_errors(source), without_bars():
        info = repository_info(source)
        note = {} if source.file else describe_config(source, info)
        files = [source.file] if source.file else list(chain.from_iterable(note["files"].values()))
        revision = source.revision or None
        planned = snapshot_download(info.id, repo_type="dataset", revision=revision, allow_patterns=files, dry_run=True)
        if not planned:
            raise InputError(f"{source}: no such file in the repository")

    def run() -> None:
        with hub_errors(source):
            folder = snapshot_download(info.id, repo_type="dataset", revision=revision, allow_patterns=files)
            _check_hashes(Path(folder), source, files, str(info.sha))
        if note:
            path = fetch_note(source)
            make_folder(path.parent)
            write_text(path, json.dumps(note))

    size = sum(file.file_size or 0 for file in planned if file.will_download)
    return Fetch(str(source), size, run, Path(constants.HF_HUB_CACHE), str(info.sha))


def _check_hashes(folder: Path, source: HubSource, files: list[str], commit: str) -> None:
    """Compares files with the SHA-256 that the hub knows of those that it keeps in LFS."""
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    for file in HfApi().get_paths_info(source.repository, files, repo_type="dataset", revision=commit):
        if isinstance(file, RepoFile) and file.lfs and file_sha256(folder / file.path) != file.lfs.sha256:
            raise InputError(f"{folder / file.path}: not the file of the hub; remove it and fetch it again")

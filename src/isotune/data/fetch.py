"""Fetches datasets ahead of their use from their public sources, for machines without a network.

Single files of the hub go into the cache of `huggingface_hub`; configurations, and files of the
web, into the user's cache folder. Afterwards each dataset is read once from there, which checks its
counts.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from tempfile import TemporaryDirectory

from isotune.data.catalogue import DATASETS
from isotune.data.datasets import dataset_records, has_rows
from isotune.data.derived import RowQuery
from isotune.data.hub import HUB, HubSource, ask_commit, fetch_folder, hub_errors
from isotune.data.published import fetch_web, web_address
from isotune.data.rows import Sentence
from isotune.errors import InputError, require_extra
from isotune.files import atomic_write, make_folder, remove


def fetch(names: Iterable[str]) -> Iterator[str]:
    """Fetches datasets that are not here, and "hub:owner/name[...]" sources.

    Each place is fetched once, after its name is given.
    """
    places: dict[HubSource | str, None] = {}
    for name in names:
        places |= dict.fromkeys(_places(name))
    for place in places:
        yield str(place)
        if isinstance(place, HubSource):
            require_extra("hub", "datasets")
            with hub_errors(str(place), f"datasets/{place.repository}"):
                _fetch_hub(place)
        else:
            fetch_web(place)


def check_fetched(names: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Reads every split of the datasets; gives its name and the number of its rows."""
    for member in dict.fromkeys(chain.from_iterable(map(members, names))):
        name, _, split_name = member.partition(":")
        splits: Iterable[str] = DATASETS[name].splits
        if split_name:
            splits = [split_name]
        for split in splits:
            for source in dataset_records(name, split, RowQuery(Sentence)):
                yield f"{name}:{split}", sum(1 for _ in source.records)


def members(source: str) -> Sequence[str]:
    """The datasets that a source is read with: "name" or "name:split"; none if it is on the hub."""
    if source.startswith("hub:"):
        return ()
    dataset = DATASETS[source.partition(":")[0]]
    if dataset.union:
        return dataset.union
    if dataset.gold_of:
        return (source, dataset.gold_of)
    return (source,)


def _places(source: str) -> Iterator[HubSource | str]:
    """Where the data of a source are published that are not on this machine."""
    if source.startswith("hub:"):
        yield HubSource.parse(source.removeprefix("hub:").partition(":")[0])
    for member in members(source):
        if has_rows(member):
            continue
        dataset = DATASETS[member.partition(":")[0]]
        if dataset.hub:
            yield dataset.hub
        elif dataset.web:
            for split in dataset.splits.values():
                yield web_address(dataset, split)
        else:
            files = ", ".join(dict.fromkeys(split.file for split in dataset.splits.values()))
            raise InputError(
                f"{member}: it is not published; set ISOTUNE_DATA to a folder with {files}"
            )


def _fetch_hub(source: HubSource) -> None:
    from datasets import load_dataset
    from huggingface_hub import hf_hub_download

    # The hub is asked first, so that a hub that is down is an error at once.
    commit = ask_commit(source)
    if source.file:
        # A file is fetched by the name of its revision, and found offline by it; a commit is not.
        revision = source.revision or None
        hf_hub_download(source.repository, source.file, repo_type="dataset", revision=revision)
        return
    folder = fetch_folder(source)
    if not (folder / commit).exists():
        make_folder(folder)
        with TemporaryDirectory(dir=folder.parent) as scratch:
            splits = load_dataset(
                HUB + source.repository, source.config or None, revision=commit, cache_dir=scratch
            )
            with atomic_write(folder / commit, new=True) as part:
                splits.save_to_disk(part)
    for other in folder.iterdir():
        if other.name != commit:
            remove(other)

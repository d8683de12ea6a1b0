"""Datasets on the Hugging Face hub, read by the library `datasets`, and single files of their repositories."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from isotune.data.cache import cache_folder
from isotune.data.layouts import read_layout
from isotune.data.records import FORMATS, Opened, format_of, opened
from isotune.data.rows import Records
from isotune.errors import InputError, unknown

if TYPE_CHECKING:
    from huggingface_hub import DatasetInfo

_KINDS = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".csv": "csv", ".txt": "text"}  # of `datasets`
WAIT = 10  # seconds for the hub's answer to the first question

_FORM = re.compile(r"([^/@]+(?:/[^/@]+)?+)(?:@(refs/(?:convert|pr)/[^/]+|[^/]+))?(?:/(.+))?")


@dataclass(frozen=True)
class HubSource:
    """A dataset on the hub, one configuration of a dataset, or one file of its repository."""

    repository: str  # "owner/name"
    revision: str = ""  # a branch, a tag or a commit; empty for the main branch
    config: str = ""  # may be empty if the dataset has only one configuration
    file: str = ""  # the path in the repository; empty to read a configuration

    @classmethod
    def parse(cls, text: str) -> HubSource:
        """The source that "owner/name[@revision][/config or file]" names.

        A name with an ending that isotune reads, such as .csv or .txt.gz, is a file; another name is a configuration.

        Raises:
            InputError: the text has another form.
        """
        if not (parts := _FORM.fullmatch(text)):
            raise InputError(f"hub:{text}: write hub:owner/name[@revision][/configuration or file][:split]")
        repository, revision, name = parts.groups(default="")
        config, file = ("", name) if _readable(name) else (name, "")
        return cls(repository, revision, config, file)

    def __str__(self) -> str:
        name = self.file or self.config
        return f"hub:{self.repository}{self.revision and f'@{self.revision}'}{name and f'/{name}'}"


def open_hub(source: HubSource, split: str, *, labelled: bool, layout: str = "", fetched_first: bool = False) -> Opened:
    """Asks the hub for a repository's commit; all that is read is of this commit.

    So a hub that is down is an error at once; `datasets` alone would try again for a minute. A configuration is
    streamed, a file is fetched into the cache of `huggingface_hub`. With `fetched_first` or HF_HUB_OFFLINE, what has
    been fetched before (`fetch.py`) is read, and the hub is not asked.

    Args:
        source: what to read.
        split: the hub's name of a split, "train" if empty; or the part of a file with a layout. Other files have none.
        labelled: give class labels by their names, and leave out rows without one (-1). Else labels are numbers.
        layout: how to read a file (`LAYOUTS`) whose ending doesn't tell.
        fetched_first: see above.

    Raises:
        InputError: the hub or the repository can't be reached. With the first record: the part of the repository that
            is named isn't there or can't be read.
    """
    from huggingface_hub import constants

    fetched = find_fetched(source) if fetched_first or constants.HF_HUB_OFFLINE else None
    if fetched:
        commit = fetched.folder.name
    else:
        with hub_errors(source, split):
            info = repository_info(source)
        commit = str(info.sha)

    def records() -> Records:
        with hub_errors(source, split):
            if source.file:
                path = fetched.folder / source.file if fetched else _fetched_file(source, info)
                yield from _read_file(source, split, path, layout)
            else:
                splits = _load_fetched(fetched) if fetched else _load_streams(source, info)
                yield from _read_split(source, split, splits, labelled)

    return Opened(str(source), records(), {str(source): commit})


@contextmanager
def without_bars() -> Iterator[None]:
    """Keeps `huggingface_hub` from showing progress."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    shown = not are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            enable_progress_bars()


@contextmanager
def hub_errors(source: HubSource, split: str = "") -> Iterator[None]:
    """Turns what the libraries raise about a source into an InputError of one line."""
    from datasets.exceptions import DatasetNotFoundError
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    page = f"https://huggingface.co/datasets/{source.repository}"
    try:
        yield
    except InputError:
        raise
    except (GatedRepoError, DatasetNotFoundError) as error:  # `datasets` says "not found" of a gated one, too
        raise InputError(
            f"{source}: this dataset is gated: ask for access on {page}, then log in with 'hf auth login'"
        ) from error
    except RepositoryNotFoundError as error:
        raise InputError(
            f"{source}: no such dataset on the Hugging Face hub; log in with 'hf auth login' if it is private"
        ) from error
    except Exception as error:  # libraries below raise errors of many classes
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        place = f"{source}:{split}".rstrip(":")
        raise InputError(f"{place}: can't be read from the Hugging Face hub ({reason})") from error


def repository_info(source: HubSource) -> DatasetInfo:
    """What the hub says of a repository; it is asked once."""
    import huggingface_hub
    from huggingface_hub.errors import RevisionNotFoundError

    try:
        return huggingface_hub.dataset_info(source.repository, revision=source.revision or None, timeout=WAIT)
    except RevisionNotFoundError as error:
        refs = huggingface_hub.list_repo_refs(source.repository, repo_type="dataset")
        names = [ref.name for ref in (*refs.branches, *refs.tags)]
        raise unknown(f"revision of hub:{source.repository}", source.revision, names) from error


class Fetched(NamedTuple):
    """What was fetched of a repository."""

    folder: Path  # the repository's files, in the cache of `huggingface_hub`
    files: Mapping[str, Sequence[str]]  # split -> its files in the folder; empty for a file
    features: Mapping[str, Any]  # the types of the columns, as `datasets` writes them; empty for a file


def find_fetched(source: HubSource) -> Fetched | None:
    """What the source names, if it was fetched and is still in the cache."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    note: dict[str, Any] = {"files": {}, "features": {}}
    if not source.file:
        path = fetch_note(source)
        if not path.exists():
            return None
        note = json.loads(path.read_text("utf-8"))
    listed = [source.file] if source.file else list(chain.from_iterable(note["files"].values()))
    revision = source.revision or None
    try:
        folder = Path(
            snapshot_download(
                source.repository, repo_type="dataset", revision=revision, allow_patterns=listed, local_files_only=True
            )
        )
    except LocalEntryNotFoundError:
        return None
    return Fetched(folder, **note) if all((folder / file).is_file() for file in listed) else None


def fetch_note(source: HubSource) -> Path:
    """The file that tells which files of a repository are a configuration's splits, and the types of its columns.

    `datasets` finds this out only if the files of all configurations are there.
    """
    name = source.repository.replace("/", "--")
    return cache_folder("") / "hub" / name / f"{source.revision or 'main'}--{source.config or 'default'}.json"


def describe_config(source: HubSource, info: DatasetInfo) -> dict[str, Any]:
    """The files of each split of a configuration, and the types of its columns: what `fetch_note` holds.

    Raises:
        InputError: the repository has no such configuration, or several and none is named.
    """
    import datasets

    address = f"hf://datasets/{info.id}"
    builder = datasets.load_dataset_builder(address, _config(source, info), revision=info.sha)
    prefix = f"{address}@{info.sha}/"
    splits = {str(split): list(files) for split, files in (builder.config.data_files or {}).items()}
    return {
        "files": {split: [str(file).removeprefix(prefix) for file in files] for split, files in splits.items()},
        "features": builder.info.features.to_dict() if builder.info.features else {},
    }


def _readable(name: str) -> bool:
    """Whether isotune reads files of this name."""
    return name.lower().removesuffix(".gz").endswith(tuple(FORMATS))


def _config(source: HubSource, info: DatasetInfo) -> str | None:
    """The configuration to read; None if the repository has only one."""
    import datasets

    configs = datasets.get_dataset_config_names(f"hf://datasets/{info.id}", revision=info.sha)
    if source.config and source.config not in configs:
        raise unknown(f"configuration of hub:{source.repository}", source.config, configs)
    if not source.config and len(configs) > 1:
        raise InputError(f"{source}: write {source}/CONFIGURATION with one of {', '.join(configs)}")
    return source.config or None


def _load_streams(source: HubSource, info: DatasetInfo) -> Any:
    """The splits of a configuration on the hub, by name."""
    import datasets

    address = f"hf://datasets/{info.id}"  # a path without hf:// could be a local folder
    return datasets.load_dataset(address, _config(source, info), revision=info.sha, streaming=True)


def _load_fetched(fetched: Fetched) -> Any:
    """The splits of a fetched configuration, by name."""
    import datasets

    paths = {split: [str(fetched.folder / file) for file in files] for split, files in fetched.files.items()}
    first = next(iter(chain.from_iterable(paths.values())))
    kind = next(kind for ending, kind in _KINDS.items() if first.removesuffix(".gz").endswith(ending))
    features = datasets.Features.from_dict(dict(fetched.features)) if fetched.features else None
    return datasets.load_dataset(kind, data_files=paths, features=features, streaming=True)


def _read_split(source: HubSource, split: str, splits: Any, labelled: bool) -> Records:
    import datasets

    split = split or "train"
    if split not in splits:
        raise unknown(f"split of {source}", split, splits)
    features = splits[split].features or {} if labelled else {}
    names = {key: feature.names for key, feature in features.items() if isinstance(feature, datasets.ClassLabel)}
    for number, record in enumerate(splits[split], 1):
        if all(record[key] not in (None, -1) for key in names):
            yield number, {**record, **{key: classes[record[key]] for key, classes in names.items()}}


def _fetched_file(source: HubSource, info: DatasetInfo) -> Path:
    """A file of a repository, after fetching it."""
    from huggingface_hub import hf_hub_download

    files = [file.rfilename for file in info.siblings or ()]
    if source.file not in files:
        raise unknown(f"file of hub:{source.repository}", source.file, filter(_readable, files))
    return Path(hf_hub_download(info.id, source.file, repo_type="dataset", revision=info.sha))


def _read_file(source: HubSource, split: str, path: Path, layout: str) -> Records:
    if layout:
        yield from read_layout(layout, path, split)
        return
    if split:
        raise InputError(f"{source}: a file has no splits; leave out :{split}")
    with opened(path) as file:
        yield from format_of(path)(file, str(source))

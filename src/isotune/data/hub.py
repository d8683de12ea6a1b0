"""Datasets on the Hugging Face hub, read by the library `datasets`, and single files of their repositories."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from isotune.data.layouts import LAYOUTS
from isotune.data.records import FORMATS, Opened, format_of, opened
from isotune.data.rows import Records
from isotune.errors import InputError, unknown

if TYPE_CHECKING:
    from huggingface_hub import DatasetInfo

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
    streamed, a file is fetched into the cache of `huggingface_hub`. With HF_HUB_OFFLINE, what has been fetched before
    (`fetch.py`) is read.

    Args:
        source: what to read.
        split: the hub's name of a split, "train" if empty; or the part of a file with a layout. Other files have none.
        labelled: give class labels by their names, and leave out rows that have no class label (-1). Otherwise class
            labels are numbers.
        layout: the layout of a file (`LAYOUTS`); if empty, the file's ending tells how to read it.
        fetched_first: read what has been fetched, without asking the hub.

    Raises:
        InputError: the hub or the repository can't be reached. With the first record: the part of the repository that
            is named isn't there or can't be read.
    """
    from huggingface_hub import constants

    folder = fetched_folder(source) if fetched_first or constants.HF_HUB_OFFLINE else None
    if folder:
        commit, repository = folder.name, str(folder)
    else:
        with hub_errors(source, split):
            info = repository_info(source)
        commit, repository = str(info.sha), f"hf://datasets/{info.id}"  # without hf:// it could be a local folder

    def records() -> Records:
        with hub_errors(source, split):
            if source.file:
                path = folder / source.file if folder else _fetched_file(source, info)
                yield from _read_file(source, split, path, layout)
            else:
                yield from _read_split(source, split, repository, "" if folder else commit, labelled)

    return Opened(str(source), records(), {str(source): commit})


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


def fetched_folder(source: HubSource) -> Path | None:
    """The folder of the repository in the cache of `huggingface_hub`, if what the source names was fetched into it."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    revision = source.revision or None
    try:
        folder = Path(
            snapshot_download(source.repository, repo_type="dataset", revision=revision, local_files_only=True)
        )
        has_data = (folder / source.file).is_file() if source.file else bool(data_files(source, str(folder), ""))
    except (LocalEntryNotFoundError, FileNotFoundError, ValueError):  # nothing, or only what is read of a stream
        return None
    return folder if has_data else None


def data_files(source: HubSource, repository: str, commit: str) -> list[str]:
    """The paths or addresses of a configuration's data files, for all of its splits.

    `repository` is a folder, or "hf://datasets/owner/name".

    Raises:
        InputError: the repository has no such configuration, or several and none is named.
    """
    import datasets

    config = _config(source, repository, commit)
    builder = datasets.load_dataset_builder(repository, config, revision=commit or None)
    return [str(file) for files in (builder.config.data_files or {}).values() for file in files]


def _readable(name: str) -> bool:
    """Whether isotune reads files of this name."""
    return name.lower().removesuffix(".gz").endswith(tuple(FORMATS))


def _config(source: HubSource, repository: str, commit: str) -> str | None:
    """The configuration to read; None if the repository has only one."""
    import datasets

    configs = datasets.get_dataset_config_names(repository, revision=commit or None)
    if source.config and source.config not in configs:
        raise unknown(f"configuration of hub:{source.repository}", source.config, configs)
    if not source.config and len(configs) > 1:
        raise InputError(f"{source}: write {source}/CONFIGURATION with one of {', '.join(configs)}")
    return source.config or None


def _read_split(source: HubSource, split: str, repository: str, commit: str, labelled: bool) -> Records:
    import datasets

    config = _config(source, repository, commit)
    splits = datasets.load_dataset(repository, config, revision=commit or None, streaming=True)
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
        yield from LAYOUTS[layout](path, split)
        return
    if split:
        raise InputError(f"{source}: a file has no splits; leave out :{split}")
    with opened(path) as file:
        yield from format_of(path)(file, str(source))

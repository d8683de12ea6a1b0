"""Datasets on the Hugging Face hub, read by the library `datasets`, and single files of their repositories."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from isotune.data.records import FORMATS, format_of, opened
from isotune.data.rows import Records
from isotune.errors import InputError, unknown

if TYPE_CHECKING:
    from huggingface_hub import DatasetInfo

WAIT = 10  # seconds for the hub's answer to the first question

COMMITS: dict[str, str] = {}  # source without its split -> the commit that this process read last

_FORM = re.compile(r"([^/@]+(?:/[^/@]+)?+)(?:@(refs/(?:convert|pr)/[^/]+|[^/]+))?(?:/(.+))?")


@dataclass(frozen=True)
class HubSource:
    """A dataset on the hub, one configuration of a dataset, or one file of its repository."""

    repository: str  # "owner/name"
    revision: str = ""  # a branch, a tag or a commit; empty for the main branch
    config: str = ""  # may be empty if the dataset has only one configuration
    file: str = ""  # the path in the repository; empty to read a configuration
    splits: Mapping[str, str] = field(default_factory=dict)  # our name of a split -> the hub's, where it is another

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


def read_hub(source: HubSource, split: str, *, labelled: bool) -> Records:
    """Streams the records of a split (if it is empty: of "train"), or of a file, which has no splits.

    The hub is first asked for the repository's commit, and all that is read is of this commit. So a hub that is down
    is an error at once; `datasets` alone would try again for a minute.

    With `labelled`, class labels are given by their names, and rows that have no class label (-1) are left out.
    Otherwise class labels are numbers.

    Raises:
        InputError: the hub, the repository, or the part of it that is named can't be reached or read.
    """
    from datasets.exceptions import DatasetNotFoundError
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    page = f"https://huggingface.co/datasets/{source.repository}"
    try:
        info = _information(source)
        COMMITS[str(source)] = str(info.sha)
        yield from _file(source, split, info) if source.file else _split(source, split, info, labelled)
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


def _readable(name: str) -> bool:
    """Whether isotune reads files of this name."""
    return name.lower().removesuffix(".gz").endswith(tuple(FORMATS))


def _information(source: HubSource) -> DatasetInfo:
    """What the hub says of a repository; it is asked once."""
    import huggingface_hub
    from huggingface_hub.errors import RevisionNotFoundError

    try:
        return huggingface_hub.dataset_info(source.repository, revision=source.revision or None, timeout=WAIT)
    except RevisionNotFoundError as error:
        refs = huggingface_hub.list_repo_refs(source.repository, repo_type="dataset")
        names = [ref.name for ref in (*refs.branches, *refs.tags)]
        raise unknown(f"revision of hub:{source.repository}", source.revision, names) from error


def _split(source: HubSource, split: str, info: DatasetInfo, labelled: bool) -> Records:
    import datasets

    path = f"hf://datasets/{info.id}"  # a path without hf:// could be a local folder
    configs = datasets.get_dataset_config_names(path, revision=info.sha)
    if source.config and source.config not in configs:
        raise unknown(f"configuration of hub:{source.repository}", source.config, configs)
    if not source.config and len(configs) > 1:
        raise InputError(f"{source}: write {source}/CONFIGURATION with one of {', '.join(configs)}")
    splits = datasets.load_dataset(path, source.config or None, revision=info.sha, streaming=True)
    split = source.splits.get(split, split) or "train"
    if split not in splits:
        raise unknown(f"split of {source}", split, splits)
    features = splits[split].features or {} if labelled else {}
    names = {key: feature.names for key, feature in features.items() if isinstance(feature, datasets.ClassLabel)}
    for number, record in enumerate(splits[split], 1):
        if all(record[key] not in (None, -1) for key in names):
            yield number, {**record, **{key: classes[record[key]] for key, classes in names.items()}}


def _file(source: HubSource, split: str, info: DatasetInfo) -> Records:
    """The records of a file, which is fetched into the cache of the library `huggingface_hub`."""
    from huggingface_hub import hf_hub_download

    if split:
        raise InputError(f"{source}: a file has no splits; leave out :{split}")
    files = [file.rfilename for file in info.siblings or ()]
    if source.file not in files:
        raise unknown(f"file of hub:{source.repository}", source.file, filter(_readable, files))
    path = Path(hf_hub_download(info.id, source.file, repo_type="dataset", revision=info.sha))
    with opened(path) as file:
        yield from format_of(path)(file, str(source))

"""Datasets on the Hugging Face hub, read by the library `datasets`, and single files of their repositories.

A configuration is streamed. `fetch.py` keeps a configuration in the user's cache folder, as `datasets` saves it. Files
are in the cache of `huggingface_hub`.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from isotune.data.cache import cache_folder
from isotune.data.layouts import read_layout
from isotune.data.records import FORMATS, Opened, format_of, name_classes, opened
from isotune.data.rows import Records
from isotune.errors import InputError, require_extra, unknown

HUB = "hf://datasets/"  # before a repository, which `datasets` could take for a local folder
WAIT = 10  # seconds for the first answer of the hub, or of another server

_FORM = re.compile(r"([^/@]+(?:/[^/@]+)?+)(?:@(refs/(?:convert|pr)/[^/]+|[^/]+))?(?:/(.+))?")


@dataclass(frozen=True)
class HubSource:
    """A dataset on the hub, one configuration of a dataset, or one file of its repository."""

    repository: str  # "owner/name"
    revision: str = ""  # a branch, a tag or a commit; empty for the main branch
    config: str = ""  # may be empty if the dataset has only one configuration
    file: str = ""  # the path in the repository; empty to read a configuration

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads "owner/name[@revision][/config or file]"; a name with an ending such as .csv is a file."""
        if not (parts := _FORM.fullmatch(text)):
            raise InputError(
                f"hub:{text}: write hub:owner/name[@revision][/configuration or file][:split]"
            )
        repository, revision, name = parts.groups(default="")
        is_file = name.lower().removesuffix(".gz").endswith(tuple(FORMATS))
        config, file = ("", name) if is_file else (name, "")
        return cls(repository, revision, config, file)

    def __str__(self) -> str:
        name = self.file or self.config
        return f"hub:{self.repository}{self.revision and f'@{self.revision}'}{name and f'/{name}'}"


def open_hub(
    source: HubSource, split: str, *, labelled: bool, layout: str = "", fetched_first: bool = False
) -> Opened:
    """Asks the hub for a repository's commit; all that is read is of this commit.

    So a hub that is down is an error at once; `datasets` alone would try again for a minute. With `fetched_first` or
    HF_HUB_OFFLINE, what has been fetched before is read, and the hub is not asked.

    `split` is the hub's name of a split, "train" if empty, or the part of a file with a layout (`LAYOUTS`). With
    `labelled`, class labels are given by their names, and rows without one (-1) are left out; else they are numbers.
    """
    from huggingface_hub import constants, hf_hub_download

    require_extra("hub", "datasets")
    fetched = find_fetched(source) if fetched_first or constants.HF_HUB_OFFLINE else None
    place, page = f"{source}:{split}".rstrip(":"), f"datasets/{source.repository}"
    with hub_errors(place, page):
        commit = fetched or ask_commit(source)

    def records() -> Records:
        with hub_errors(place, page):
            if source.file:
                path = Path(
                    hf_hub_download(
                        source.repository, source.file, repo_type="dataset", revision=commit
                    )
                )
                if layout:
                    yield from read_layout(layout, path, split)
                    return
                if split:
                    raise InputError(f"{source}: a file has no splits; leave out :{split}")
                with opened(path) as file:
                    file_records = format_of(path)(file, str(source))
                    if labelled:
                        file_records = name_classes(str(source), file_records)
                    yield from file_records
            else:
                import datasets

                repository = HUB + source.repository
                splits = (
                    datasets.load_from_disk(str(fetch_folder(source) / fetched))
                    if fetched
                    else datasets.load_dataset(
                        repository, source.config or None, revision=commit, streaming=True
                    )
                )
                yield from _read_split(source, split, splits, labelled)

    return Opened(str(source), records(), {str(source): commit})


@contextmanager
def hub_errors(name: str, path: str, kind: str = "dataset", advice: str = "") -> Iterator[None]:
    """Turns what the libraries raise about a repository into an InputError of one line; `path` is that of its page."""
    from huggingface_hub import constants, errors

    page, login = f"{constants.ENDPOINT}/{path}", "log in with 'hf auth login'"
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # libraries below raise errors of many classes
        reason = " ".join(str(error).splitlines()[:2]) or type(error).__name__
        match error:
            case errors.HFValidationError():
                problem = "this can't be a name on the Hugging Face hub, such as google-bert/bert-base-uncased"
            case errors.RevisionNotFoundError() | errors.RemoteEntryNotFoundError():
                problem = f"the repository has no such revision or file; see {page}/tree/main"
            case _ if isinstance(error, errors.GatedRepoError) or "is a gated dataset" in reason:
                problem = f"it is gated: ask for access on {page}, then {login}"
            case errors.RepositoryNotFoundError():
                problem = f"no such {kind} on the Hugging Face hub; {login} if it is private"
            case _:
                problem = f"can't be read from the Hugging Face hub ({reason})"
        raise InputError(f"{name}: {problem}{advice}") from error


def ask_commit(source: HubSource) -> str:
    """The commit that the source has on the hub; the hub is asked once."""
    import huggingface_hub

    info = huggingface_hub.dataset_info(
        source.repository, revision=source.revision or None, timeout=WAIT
    )
    return str(info.sha)


def find_fetched(source: HubSource) -> str | None:
    """The commit of what was fetched of the source, if it is still on this machine."""
    from huggingface_hub import try_to_load_from_cache

    if not source.file:
        return next(
            (path.name for path in fetch_folder(source).glob("*") if path.suffix != ".part"), None
        )
    revision = source.revision or "main"
    path = try_to_load_from_cache(
        source.repository, source.file, repo_type="dataset", revision=revision
    )
    return Path(path).parents[source.file.count("/")].name if isinstance(path, str) else None


def fetch_folder(source: HubSource) -> Path:
    """The folder in which a configuration's fetched rows are, in a folder named by their commit."""
    name = source.repository.replace("/", "--")
    return (
        cache_folder("")
        / "hub"
        / name
        / f"{source.revision or 'main'}--{source.config or 'default'}"
    )


def _read_split(source: HubSource, split: str, splits: Any, labelled: bool) -> Records:
    import datasets

    split = split or "train"
    if split not in splits:
        raise unknown(f"split of {source}", split, splits)
    rows = splits[split]
    classes = {}
    if labelled:
        for column, feature in (rows.features or {}).items():
            if isinstance(feature, datasets.ClassLabel):
                classes[column] = feature.names
    yield from name_classes(str(source), enumerate(rows, 1), classes)

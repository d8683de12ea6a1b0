"""Datasets on the Hugging Face hub, and single files of their repositories.

A configuration is streamed by the library `datasets`. `fetch.py` keeps a configuration in the
user's cache folder, as `datasets` saves it. Files are in the cache of `huggingface_hub`.
"""

import json
import logging
import re
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

from isotune.data.cache import cache_folder
from isotune.data.layouts import read_layout
from isotune.data.records import (
    FORMATS,
    Opened,
    class_columns,
    format_of,
    name_classes,
    opened,
)
from isotune.data.rows import Records
from isotune.errors import InputError, require_extra, unknown

logger = logging.getLogger(__name__)

HUB = "hf://datasets/"
"""Stands before a repository's name, which `datasets` could take for a local folder."""

WAIT = 10
"""Seconds for the first answer of the hub, or of another server."""

PATIENCE = 1.5
"""Seconds after which a line says that an answer is waited for."""

_FORM = re.compile(r"([^/@]+(?:/[^/@]+)?+)(?:@(refs/(?:convert|pr)/[^/]+|[^/]+))?(?:/(.+))?")


@dataclass(frozen=True)
class HubSource:
    """A dataset on the hub, one configuration of a dataset, or one file of its repository."""

    repository: str
    """The name on the hub, "owner/name"."""

    revision: str = ""
    """A branch, a tag or a commit; empty for the main branch."""

    config: str = ""
    """The configuration. It may be empty if the dataset has only one."""

    file: str = ""
    """The path of a file in the repository; empty to read a configuration."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads "owner/name[@revision][/config or file]".

        A name with an ending such as .csv is a file.
        """
        parts = _FORM.fullmatch(text)
        if not parts:
            raise InputError(
                f"hub:{text}: write hub:owner/name[@revision][/configuration or file][:split]"
            )
        repository, revision, name = parts.groups(default="")
        is_file = name.lower().removesuffix(".gz").endswith(tuple(FORMATS))
        if is_file:
            return cls(repository, revision, file=name)
        return cls(repository, revision, config=name)

    def __str__(self) -> str:
        text = f"hub:{self.repository}"
        if self.revision:
            text += f"@{self.revision}"
        name = self.file or self.config
        if name:
            text += f"/{name}"
        return text


def open_hub(
    source: HubSource, split: str, *, labelled: bool, layout: str = "", fetched_first: bool = False
) -> Opened:
    """Asks the hub for a repository's commit; all that is read is of this commit.

    So a hub that is down is an error at once; `datasets` alone would try again for a minute. With
    `fetched_first` or HF_HUB_OFFLINE, what has been fetched before is read, and the hub is not
    asked.

    `split` is the hub's name of a split, "train" if empty, or the part of a file with a layout
    (`LAYOUTS`). With `labelled`, class labels are given by their names, and rows without one (-1)
    are left out; else they are numbers.
    """
    from huggingface_hub import constants

    require_extra("hub", "datasets")
    place = f"{source}:{split}".rstrip(":")
    page = f"datasets/{source.repository}"
    fetched = None
    if fetched_first or constants.HF_HUB_OFFLINE:
        fetched = find_fetched(source)
    if fetched:
        commit = fetched
    else:
        with hub_errors(place, page):
            commit = ask_commit(source)

    def records() -> Records:
        with hub_errors(place, page):
            if source.file:
                yield from _read_file(source, commit, split, labelled, layout)
            else:
                splits = _load_splits(source, commit, is_fetched=bool(fetched))
                yield from _read_split(source, split, splits, labelled)

    return Opened(str(source), records(), {str(source): commit})


def _read_file(source: HubSource, commit: str, split: str, labelled: bool, layout: str) -> Records:
    from huggingface_hub import hf_hub_download

    path = Path(
        hf_hub_download(source.repository, source.file, repo_type="dataset", revision=commit)
    )
    if layout:
        yield from read_layout(layout, path, split)
        return
    if split:
        raise InputError(f"{source}: a file has no splits; leave out :{split}")
    with opened(path) as file:
        records = format_of(path)(file, str(source))
        if labelled:
            records = name_classes(str(source), records)
        yield from records


def _load_splits(source: HubSource, commit: str, *, is_fetched: bool) -> Any:
    import datasets

    if is_fetched:
        return datasets.load_from_disk(str(fetch_folder(source) / commit))
    return datasets.load_dataset(
        HUB + source.repository, source.config or None, revision=commit, streaming=True
    )


@contextmanager
def hub_errors(name: str, path: str, kind: str = "dataset", advice: str = "") -> Iterator[None]:
    """Turns what the libraries raise about a repository into an InputError of one line.

    `path` is the path of the repository's page on the hub.
    """
    from huggingface_hub import constants

    try:
        yield
    except InputError:
        raise
    # Libraries below raise errors of many classes.
    except Exception as error:
        problem = _problem(error, f"{constants.ENDPOINT}/{path}", kind)
        raise InputError(f"{name}: {problem}{advice}") from error


def _problem(error: Exception, page: str, kind: str) -> str:
    """What an error of the hub's libraries says about a repository, and what to do."""
    from huggingface_hub import errors

    reason = " ".join(str(error).splitlines()[:2]) or type(error).__name__
    login = "log in with 'hf auth login'"
    if isinstance(error, errors.HFValidationError):
        return "this can't be a name on the Hugging Face hub, such as google-bert/bert-base-uncased"
    if isinstance(error, errors.RevisionNotFoundError | errors.RemoteEntryNotFoundError):
        return f"the repository has no such revision or file; see {page}/tree/main"
    if isinstance(error, errors.GatedRepoError) or "is a gated dataset" in reason:
        return f"it is gated: ask for access on {page}, then {login}"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"no such {kind} on the Hugging Face hub; {login} if it is private"
    if isinstance(error, json.JSONDecodeError) and error.doc.lstrip().startswith("<"):
        reason = "its answer is a page for a browser, perhaps to log in to a network or a proxy"
    return f"can't be read from the Hugging Face hub ({reason}){_network_advice(error)}"


def _network_advice(error: Exception) -> str:
    """What to do if the hub gave no answer, or somebody answered in its place; else nothing."""
    from huggingface_hub import constants, errors

    without_answer = (
        ConnectionError,
        TimeoutError,
        socket.gaierror,
        json.JSONDecodeError,
        errors.LocalEntryNotFoundError,
    )
    # A connection that fails raises a TransportError of httpx or httpx2: of the one that this
    # version of huggingface_hub uses.
    is_down = "TransportError" in [kind.__name__ for kind in type(error).__mro__]
    if isinstance(error, errors.HfHubHTTPError) and error.response is not None:
        status = error.response.status_code
        is_down = status >= 500 or status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
    if not is_down and not isinstance(error, without_answer):
        return ""
    if constants.HF_HUB_OFFLINE:
        return (
            "; it was not fetched before: unset HF_HUB_OFFLINE where there is a network, or bring "
            "the caches of a machine that has fetched it (HF_HOME, ~/.cache/isotune)"
        )
    return (
        f"; {constants.ENDPOINT} was asked: check the network and its proxy, set HF_ENDPOINT to "
        "another address of the hub, or HF_HUB_OFFLINE=1 to read what was fetched before"
    )


@contextmanager
def say_if_waiting(server: str) -> Iterator[None]:
    """Logs a line if the block, which waits for a server's first answer, is not done at once."""
    line = "waiting for an answer of %s, for at most %d seconds"
    timer = threading.Timer(PATIENCE, logger.warning, [line, server, WAIT])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def ask_commit(source: HubSource) -> str:
    """The commit that the source has on the hub; the hub is asked once."""
    import huggingface_hub
    from huggingface_hub import constants

    with say_if_waiting(constants.ENDPOINT):
        info = huggingface_hub.dataset_info(
            source.repository, revision=source.revision or None, timeout=WAIT
        )
    return str(info.sha)


def find_fetched(source: HubSource) -> str | None:
    """The commit of what was fetched of the source, if it is still on this machine."""
    from huggingface_hub import try_to_load_from_cache

    if not source.file:
        for folder in fetch_folder(source).glob("*"):
            if folder.suffix != ".part":
                return folder.name
        return None
    revision = source.revision or "main"
    path = try_to_load_from_cache(
        source.repository, source.file, repo_type="dataset", revision=revision
    )
    if not isinstance(path, str):
        return None
    return Path(path).parents[source.file.count("/")].name


def fetch_folder(source: HubSource) -> Path:
    """The folder in which a configuration's fetched rows are, in a folder named by their commit."""
    repository = source.repository.replace("/", "--")
    version = f"{source.revision or 'main'}--{source.config or 'default'}"
    return cache_folder("") / "hub" / repository / version


def _read_split(source: HubSource, split: str, splits: Any, labelled: bool) -> Records:
    split = split or "train"
    if split not in splits:
        raise unknown(f"split of {source}", split, splits)
    rows = splits[split]
    classes: Mapping[str, Sequence[str]] = {}
    if labelled:
        classes = class_columns(rows.features or {})
    yield from name_classes(str(source), enumerate(rows, 1), classes)

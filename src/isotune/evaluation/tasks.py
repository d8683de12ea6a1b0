"""The table of tasks: what an encoder can be scored on, by name, and the groups that have an average."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

from isotune.data import DATASETS, available, read_scored_pairs, scored_pairs
from isotune.errors import unknown
from isotune.evaluation.classifiers import Classifier, Logistic, SentEval
from isotune.evaluation.geometry_task import load_geometry, load_labelled_geometry
from isotune.evaluation.results import TaskResult
from isotune.evaluation.sts import STSTask
from isotune.evaluation.transfer import load_transfer
from isotune.evaluation.vectors import SentenceEncoder


class Task(Protocol):
    """Something to score an encoder on; its data are read."""

    @property
    def name(self) -> str:
        """As the user writes it."""
        ...

    @property
    def title(self) -> str:
        """Its name in tables."""
        ...

    def score(self, encoder: SentenceEncoder) -> TaskResult:
        """What the encoder does on it.

        Raises:
            InputError: the encoder's vectors are not finite, or its space has collapsed.
        """
        ...


class Known(NamedTuple):
    """A task of the table: its name in tables, and what makes it of its name and title, reading its data."""

    title: str
    load: Callable[[str, str], Task]


def _sts(name: str, title: str, *, subsets: bool = False) -> STSTask:
    """The test split of the dataset of that name.

    Args:
        name: also of the dataset.
        title: of the task.
        subsets: whether its mean and wmean are over subsets. SentEval scores a year's subsets apart, but STS-B and
            SICK-R whole, so that there all three aggregations are one number.
    """
    pairs = scored_pairs(name)
    return STSTask(name, title, pairs if subsets else replace(pairs, subsets=[name] * len(pairs.subsets)))


def _transfer(name: str, title: str, columns: Mapping[str, str] | None = None) -> dict[str, Known]:
    """The dataset of that name, by each classifier."""
    return {
        f"{prefix}{name}": Known(title, partial(load_transfer, classifier=classifier, dataset=name, columns=columns))
        for prefix, classifier in _CLASSIFIERS.items()
    }


_CLASSIFIERS: Mapping[str, Classifier] = MappingProxyType(
    {"": Logistic(), "senteval-": SentEval(), "senteval-50-": SentEval(hidden=50)}  # 50: SG-OPT's, its Table 9
)
_TRACKS = {"1": "ar-ar", "2": "ar-en", "3": "es-es", "4a": "es-en", "4b": "es-en", "5": "en-en", "6": "tr-en"}
_LANGUAGES = ("de", "en", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "zh")
_TRANSFER = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")

TASKS: Mapping[str, Known] = MappingProxyType(
    {
        "sts12": Known("STS12", partial(_sts, subsets=True)),
        "sts13": Known("STS13", partial(_sts, subsets=True)),
        "sts14": Known("STS14", partial(_sts, subsets=True)),
        "sts15": Known("STS15", partial(_sts, subsets=True)),
        "sts16": Known("STS16", partial(_sts, subsets=True)),
        "stsb": Known("STS-B", _sts),
        "sickr": Known("SICK-R", _sts),
        "stsb-open": Known("STS-B open", _sts),
        **{f"sts17-{track}": Known(f"STS17-{track} {pair}", _sts) for track, pair in _TRACKS.items()},
        **{f"stsb-{language}": Known(f"STS-B {language}", _sts) for language in _LANGUAGES},
        **_transfer("mr", "MR"),
        **_transfer("cr", "CR"),
        **_transfer("subj", "SUBJ"),
        **_transfer("mpqa", "MPQA"),
        **_transfer("sst2", "SST-2"),
        **_transfer("trec", "TREC", {"label": "subset"}),  # the six coarse classes
        **_transfer("mrpc", "MRPC"),
        "geometry": Known("Geometry", partial(load_geometry, source="stsb:dev")),
        "geometry-qqp": Known("Geometry QQP", partial(load_labelled_geometry, source="qqp:train")),
    }
)
"""By name."""

GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "sts": ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr"),  # the seven of ConSERT, Table 2
        "sts17": tuple(f"sts17-{track}" for track in _TRACKS),
        "stsb-multi": tuple(f"stsb-{language}" for language in _LANGUAGES),
        "transfer": _TRANSFER,  # SentEval's, in the order of its papers' tables
        "senteval": tuple(f"senteval-{name}" for name in _TRANSFER),
        "senteval-50": tuple(f"senteval-50-{name}" for name in _TRANSFER),
    }
)
"""Named sets of tasks that have an average."""

_GROUP_TITLES = MappingProxyType(
    {"sts": "STS", "sts17": "STS17", "stsb-multi": "STS-B in 11 languages", "transfer": "Transfer"}
    | {"senteval": "SentEval", "senteval-50": "SentEval, 50 hidden units"}
)


def load_tasks(tasks: Sequence[str] | None = None) -> list[Task]:
    """Tasks with their data, each once.

    A task is a name of `TASKS`, or of `GROUPS` for all of its tasks; scored pairs: a file, or a dataset's split such as
    "stsb:dev"; or the geometry on scored pairs, such as "geometry:mine.tsv" or "geometry:sickr:dev".

    Without `tasks` these are the seven of the group "sts" if this machine has them all, else "stsb-open".

    Raises:
        InputError: a task is neither known nor a file, or its data can't be read.
    """
    default = ("sts",) if all(available(task) for task in GROUPS["sts"]) else ("stsb-open",)
    names = dict.fromkeys(member for task in tasks or default for member in GROUPS.get(task, (task,)))
    return [_load(name) for name in names]


def task_title(task: str) -> str:
    """The name of a task or of a group's average in tables; a file's is its path."""
    if task in GROUPS:
        return f"{_GROUP_TITLES[task]} average"
    return TASKS[task].title if task in TASKS else task


def _load(task: str) -> Task:
    if task in TASKS:
        title, load = TASKS[task]
        return load(task, title)
    kind, _, source = task.partition(":")
    if kind == "geometry" and source:
        return load_geometry(task, f"Geometry {source}", source)
    if kind in DATASETS:
        return STSTask(task, task, replace(read_scored_pairs(task, "test"), name=task, split=""))
    if Path(task).is_file():
        return STSTask(task, task, read_scored_pairs(Path(task)))
    raise unknown("task or file", task, [*TASKS, *GROUPS])

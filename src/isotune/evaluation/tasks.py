"""The table of tasks that an encoder can be scored on, and the groups of tasks that have an average."""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from pydantic import ValidationError

from isotune.data import DATASETS, ScoredPair, available, read_scored_pairs
from isotune.data.sources import Source
from isotune.errors import InputError, invalid, unknown
from isotune.evaluation.classifiers import Classifier, Logistic, SentEval
from isotune.evaluation.copies import groups_of_copies, tell_copies
from isotune.evaluation.geometry import load_geometry
from isotune.evaluation.intervals import resampled_correlations, resampled_macro_f1, resampled_means
from isotune.evaluation.results import Aggregation, Metric, NamedScores, TaskResult, ranking_scores
from isotune.evaluation.retrieval import RetrievalTask, load_retrieval
from isotune.evaluation.sts import STSTask
from isotune.evaluation.task_rows import TaskRows, place_and_columns, place_and_part
from isotune.evaluation.transfer import (
    ClassificationTask,
    TransferTask,
    load_classification,
    load_transfer,
)
from isotune.evaluation.vectors import NO_ROWS, Floats, SentenceEncoder
from isotune.registry import Registry

F = TypeVar("F", bound="Callable[[SentenceEncoder], float | Mapping[str, float]]")


class Task(Protocol):
    """Data that an encoder can be scored on, already read."""

    @property
    def name(self) -> str:
        """The name by which the user asked for the task."""

    def score(self, encoder: SentenceEncoder) -> tuple[TaskResult, Floats]:
        """Scores the encoder; gives the value of each row too, for `resampled`.

        Raises:
            InputError: the vectors are not finite, or the space has collapsed.
        """


DevTask: TypeAlias = STSTask | RetrievalTask | ClassificationTask
"""A task that can choose a step."""
TaskSource: TypeAlias = str | Path | TaskRows
"""A task as users name it: its name, a file, or rows from memory."""
RowTask: TypeAlias = DevTask | TransferTask
"""A task whose score is over rows, so that these can be drawn again."""


def resampled(
    task: RowTask,
    values: Floats,
    aggregation: Aggregation = "all",
    metric: Metric = "spearman",
    seed: int = 0,
) -> dict[str, Floats]:
    """A task's scores [resamples] on samples of its rows, from the values of the rows that its `score` gives."""
    match task:
        case STSTask():
            return {
                task.name: resampled_correlations(
                    task.pairs, values, aggregation, metric, seed=seed, groups=task.groups
                )
            }
        case RetrievalTask():
            return dict(
                zip(
                    ranking_scores(task.name),
                    resampled_means(values, seed, task.groups).T,
                    strict=True,
                )
            )
        case TransferTask():
            accuracy = resampled_means(values[:, 0] == values[:, 1], seed, task.groups)
            more = (
                {f"{task.name}-macro-f1": resampled_macro_f1(values, seed, task.groups)}
                if task.macro_f1
                else {}
            )
            return {task.name: accuracy, **more}


class NamedTask(NamedTuple):
    """A row of the table of tasks."""

    title: str  # in printed tables
    source: str  # of the data: "name:split" of a dataset, or "name" for all of its splits; "" if the task has its own
    load: Callable[[str, str], Task]  # reads the data; takes the task's name and the source
    stand_in: str = (
        ""  # the source where this machine does not have the other; "" if none stands in
    )


# The titles of tasks by their names, which are those of the datasets that they read.
_SUBSETS = {f"sts{year}": f"STS{year}" for year in range(12, 17)}  # whose subsets SentEval scores
_STS = {**_SUBSETS, "stsb": "STS-B", "sickr": "SICK-R"}
_SENTEVAL_STS = {f"senteval-{name}": f"SentEval {title}" for name, title in _STS.items()}
_TRACKS = {
    "1": "ar-ar",
    "2": "ar-en",
    "3": "es-es",
    "4a": "es-en",
    "4b": "es-en",
    "5": "en-en",
    "6": "tr-en",
}
_STS17 = {f"sts17-{track}": f"STS17-{track} {pair}" for track, pair in _TRACKS.items()}
_LANGUAGES = ("de", "en", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "zh")
_STSB = {f"stsb-{language}": f"STS-B {language}" for language in _LANGUAGES}
_TRANSFER = {
    "mr": "MR",
    "cr": "CR",
    "subj": "SUBJ",
    "mpqa": "MPQA",
    "sst2": "SST-2",
    "trec": "TREC",
    "mrpc": "MRPC",
}
_CLASSIFIERS: dict[str, Classifier] = {
    "": Logistic(),
    "senteval-": SentEval(),
    "senteval-50-": SentEval(hidden=50),
}


def _load_sts(name: str, source: str) -> STSTask:
    """Reads a split; all pairs of a task without `_SUBSETS` are one."""
    pairs = read_scored_pairs(source)
    by_subset = name.removeprefix("senteval-") in _SUBSETS
    return STSTask(pairs if by_subset else replace(pairs, subsets=[name] * len(pairs.subsets)))


GENERAL_TASK = "stsb-open"  # what a run that bounds forgetting is evaluated on, beside the tasks that it is given
GENERAL_PAIRS = (
    "stsb-open:dev"  # answers of forums, headlines and captions, which come with isotune
)
_OWN: Mapping[str, NamedTask] = {
    **{
        name: NamedTask(title, f"{name}:test", _load_sts)
        for name, title in {
            **_STS,
            **_SENTEVAL_STS,
            "stsb-open": "STS-B open",
            **_STS17,
            **_STSB,
        }.items()
    },
    **{
        f"{prefix}{name}": NamedTask(title, name, partial(load_transfer, classifier=classifier))
        for name, title in _TRANSFER.items()
        for prefix, classifier in _CLASSIFIERS.items()
    },
    "geometry": NamedTask("Geometry", "stsb:dev", load_geometry, GENERAL_PAIRS),
}

TASKS: Registry[NamedTask] = Registry("task", _OWN)  # the tasks by name


@dataclass(frozen=True)
class FunctionTask:
    """A task that a function of the encoder is."""

    name: str
    function: Callable[[SentenceEncoder], float | Mapping[str, float]]

    def score(self, encoder: SentenceEncoder) -> tuple[NamedScores, Floats]:
        """Score the encoder; raise `InputError` if a score is not between -1 and 1."""
        name, found = self.name, self.function(encoder)
        values = (
            {f"{name}-{key}": x for key, x in found.items()}
            if isinstance(found, Mapping)
            else {name: found}
        )
        try:
            return NamedScores(name=name, values=values), NO_ROWS
        except ValidationError as error:
            raise invalid(f"task {name}", error) from error


def task(name: str, *, title: str | None = None) -> Callable[[F], F]:
    """A decorator that registers a function as a task: from an encoder to its score, or to {name: score}.

    Scores lie between -1 and 1, and higher is better; tables print them x 100. `title` is printed there.
    """

    def load(function: Callable[[SentenceEncoder], float | Mapping[str, float]]) -> NamedTask:
        return NamedTask(title or name, "", lambda name, _: FunctionTask(name, function))

    return TASKS.adding(name, load)


GROUPS: Mapping[str, tuple[str, ...]] = {
    "sts": tuple(_STS),  # the seven of ConSERT, Table 2
    "senteval-sts": tuple(_SENTEVAL_STS),  # the same pairs, with SentEval's text
    "sts17": tuple(_STS17),
    "stsb-multi": tuple(_STSB),
    "transfer": tuple(_TRANSFER),  # SentEval's, in the order of its papers' tables
    "senteval": tuple(f"senteval-{name}" for name in _TRANSFER),
    "senteval-50": tuple(f"senteval-50-{name}" for name in _TRANSFER),  # 50 units: SG-OPT, Table 9
}
"""Named sets of tasks that have an average."""

_GROUP_TITLES = {
    "sts": "STS",
    "sts17": "STS17",
    "stsb-multi": "STS-B in 11 languages",
    "transfer": "Transfer",
}
_GROUP_TITLES |= {
    "senteval-sts": "SentEval STS",
    "senteval": "SentEval",
    "senteval-50": "SentEval, 50 hidden units",
}


def load_tasks(tasks: TaskSource | Sequence[TaskSource] | None = None) -> list[Task]:
    """Reads the data of tasks. A task that is named twice is read once.

    Args:
        tasks: one or several. Each is a name of `TASKS`; a name of `GROUPS`, which stands for all tasks of the group;
            scored pairs, as a file or a dataset's split such as "stsb:dev"; "geometry:DATA", the geometry on scored or
            labelled pairs; "classification:DATA", texts with labels; "retrieval:DATA", pairs where each first text has
            to find its second among all, or a folder in BEIR's layout ("retrieval:nfcorpus", its test split, or
            "retrieval:nfcorpus:dev"); or `TaskRows`. A file's columns may stand behind its name:
            "pairs.csv,first,second,grade", "retrieval:notes.jsonl,title,body", "classification:reviews.csv,text,stars".
            If None or empty, the tasks are the seven of the group "sts" if this machine has their data, and
            "stsb-open" otherwise.

    Raises:
        InputError: a task is neither known nor a file, or its data cannot be read.
    """
    loaded = [read() for _, read in map(_found, named_tasks(tasks))]
    for name, count in Counter(task.name for task in loaded).items():
        if count > 1:
            raise InputError(f"{count} tasks have the name {name!r}; give TaskRows another name")
    return loaded


def named_tasks(tasks: TaskSource | Sequence[TaskSource] | None = None) -> list[TaskSource]:
    """The tasks that `load_tasks` reads for this argument, each once, and those of a group in its place."""
    default = ("sts",) if all(available(task) for task in GROUPS["sts"]) else ("stsb-open",)
    tasks = [tasks] if isinstance(tasks, TaskSource) else tasks
    members: list[TaskSource] = []
    for task in tasks or default:
        members += GROUPS.get(task, (task,)) if isinstance(task, str) else (task,)
    return list(dict.fromkeys(members))


def load_dev(source: str) -> DevTask:
    """Reads what chooses a step: retrieval:DATA, classification:DATA or scored pairs, of a dataset those of dev."""
    kind, _, data = source.partition(":")
    return _LOADERS[kind](source, data) if kind in _LOADERS else _load_pairs("", source)


def _load_pairs(name: str, source: Source) -> STSTask:
    place, columns = place_and_columns(source, ScoredPair)
    pairs = read_scored_pairs(place, columns=columns)
    # The pairs of a named dataset are drawn one by one, so that its intervals stay what they were.
    groups = None
    if pairs.name not in DATASETS:
        groups = groups_of_copies(pairs.sentence1, pairs.sentence2)
        tell_copies(name or pairs.name, groups, "pair", "an interval counts copies as one pair")
    if name:
        pairs = replace(pairs, name=name, split="")
    return STSTask(pairs, groups)


_LOADERS: Mapping[str, Callable[[str, Source], DevTask]] = {
    "similarity": _load_pairs,
    "retrieval": load_retrieval,
    "classification": load_classification,
}
_KINDS = ("geometry", *_LOADERS)  # they stand before their data, as in retrieval:faq.tsv


def with_whole_path(task: str) -> str:
    """The name of a task, with the whole path of the file or folder in it."""
    kind, colon, data = task.partition(":")
    if kind not in _KINDS:
        kind, colon, data = "", "", task
    place, part = place_and_part(data)
    known = place.partition(":")[0] in {"none", *TASKS, *GROUPS, *DATASETS}
    return (
        task
        if known or not os.path.exists(place)
        else f"{kind}{colon}{os.path.abspath(place)}{part}"
    )


def source_of(task: TaskSource) -> str:
    """A task's data: a file, a folder, a dataset's "name:split" or "name"; empty where the task has them itself."""
    source, _ = _found(task)
    return source


def _found(task: TaskSource) -> tuple[str, Callable[[], Task]]:
    """A task's data, as `source_of` gives them, and what reads them."""
    if isinstance(task, TaskRows):
        return "", lambda: _LOADERS[task.kind](task.name, task.read())
    name = str(task)
    if task in TASKS:
        _, source, load, stand_in = TASKS[name]
        source = stand_in if stand_in and not available(source) else source
        return source, lambda: load(name, source)
    kind, _, data = task.partition(":") if isinstance(task, str) else ("", "", "")
    if kind == "geometry" and data:
        return data, lambda: load_geometry(name, data)
    if kind in _LOADERS and data:
        return place_and_part(data)[0], lambda: _LOADERS[kind](name, data)
    if kind in DATASETS:
        source = name if data else f"{name}:test"
        return source, lambda: _load_pairs(name, source)
    place, _ = (name, "") if isinstance(task, Path) else place_and_part(name)
    if isinstance(task, Path) or os.path.isfile(place):
        return place, lambda: _load_pairs(name, task)
    if "." in name or os.path.basename(name) != name:
        raise InputError(f"{name}: no such file, and no task has this name")
    raise unknown("task or file", name, [*TASKS, *GROUPS])


def task_title(name: str) -> str:
    """The title in tables of a task, or of a group's average. A file's title is its path."""
    if name in GROUPS:
        return f"{_GROUP_TITLES[name]} average"
    return TASKS[name].title if name in TASKS else name

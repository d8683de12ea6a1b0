"""The table of tasks that an encoder can be scored on, and the groups that have an average."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from pydantic import ValidationError

from isotune.data import DATASETS, ScoredPair, available, read_scored_pairs
from isotune.data.sources import Source, is_table
from isotune.errors import InputError, invalid, unknown
from isotune.evaluation.classifiers import Classifier, Logistic, SentEval
from isotune.evaluation.copies import groups_of_copies, tell_copies
from isotune.evaluation.geometry import load_geometry
from isotune.evaluation.intervals import WithoutRows
from isotune.evaluation.labelled import LabelsApart
from isotune.evaluation.results import Aggregation, Metric, NamedScores, TaskResult
from isotune.evaluation.retrieval import RetrievalTask, load_retrieval
from isotune.evaluation.sts import STSTask
from isotune.evaluation.task_rows import (
    AMONG,
    TaskRows,
    place_and_columns,
    place_and_others,
    place_and_part,
)
from isotune.evaluation.transfer import (
    ClassificationTask,
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

    @property
    def score_names(self) -> list[str]:
        """The names of its scores, as far as they are known before an encoder is scored."""

    def texts(self) -> dict[str, list[str]]:
        """The different texts that it encodes, by the role whose prompt they get; "" is no role.

        There are none if only a plugin knows them.
        """

    def resampled(
        self,
        values: Floats,
        aggregation: Aggregation = "all",
        metric: Metric = "spearman",
        seed: int = 0,
    ) -> dict[str, Floats]:
        """Its scores [resamples] on samples of its rows; none if it has no rows to draw.

        The values of the rows are those that `score` gives. Copies of the user's own rows are drawn
        together.
        """


DevTask: TypeAlias = STSTask | RetrievalTask | ClassificationTask | LabelsApart
"""A task that can choose a step."""
TaskSource: TypeAlias = str | Path | TaskRows
"""A task as users name it: its name, a file, or rows from memory."""


class NamedTask(NamedTuple):
    """A row of the table of tasks."""

    title: str
    """The title in printed tables."""

    source: str
    """The data: "name:split" of a dataset, or "name" for all of its splits.

    It is "" if the task has its own data.
    """

    load: Callable[[str, str], Task]
    """Reads the data; takes the task's name and the source."""

    stand_in: str = ""
    """The source where this machine does not have the other; "" if none stands in."""


# The titles of tasks by their names, which are those of the datasets that they read.
# SentEval scores the subsets of these tasks.
_SUBSETS = {f"sts{year}": f"STS{year}" for year in range(12, 17)}
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

GENERAL_TASK = "stsb-open"
"""A run that bounds forgetting is evaluated on this task, beside those that it is given."""

GENERAL_PAIRS = "stsb-open:dev"
"""Answers of forums, headlines and captions, which come with isotune."""


def _load_sts(name: str, source: str) -> STSTask:
    """Reads a split; all pairs of a task without `_SUBSETS` are one subset."""
    pairs = read_scored_pairs(source)
    if name.removeprefix("senteval-") not in _SUBSETS:
        pairs = replace(pairs, subsets=[name] * len(pairs.subsets))
    return STSTask(pairs)


def _own_tasks() -> dict[str, NamedTask]:
    """The tasks that come with isotune, by their names."""
    tasks = {}
    similarity = {**_STS, **_SENTEVAL_STS, "stsb-open": "STS-B open", **_STS17, **_STSB}
    for name, title in similarity.items():
        tasks[name] = NamedTask(title, f"{name}:test", _load_sts)
    for name, title in _TRANSFER.items():
        for prefix, classifier in _CLASSIFIERS.items():
            load = partial(load_transfer, classifier=classifier)
            tasks[f"{prefix}{name}"] = NamedTask(title, name, load)
    tasks["geometry"] = NamedTask("Geometry", "stsb:dev", load_geometry, GENERAL_PAIRS)
    return tasks


TASKS: Registry[NamedTask] = Registry("task", _own_tasks())
"""The tasks by name."""


@dataclass(frozen=True)
class FunctionTask(WithoutRows):
    """A task that a function of the encoder is."""

    name: str
    function: Callable[[SentenceEncoder], float | Mapping[str, float]]

    @property
    def score_names(self) -> list[str]:
        """The name of its score; the function may give several, which only it knows."""
        return [self.name]

    def texts(self) -> dict[str, list[str]]:
        """No texts: only the function knows what it encodes."""
        return {}

    def score(self, encoder: SentenceEncoder) -> tuple[NamedScores, Floats]:
        """Scores the encoder.

        Raises `InputError` if there is no score, or one that is not between -1 and 1.
        """
        scores = self.function(encoder)
        values: dict[str, float] = {}
        if not isinstance(scores, Mapping):
            values[self.name] = scores
        elif scores:
            values = {f"{self.name}-{key}": score for key, score in scores.items()}
        else:
            raise InputError(f"task {self.name}: it gives no score; a function of a task gives one")
        try:
            return NamedScores(name=self.name, values=values), NO_ROWS
        except ValidationError as error:
            raise invalid(f"task {self.name}", error) from error


def task(name: str, *, title: str | None = None) -> Callable[[F], F]:
    """A decorator that registers a function as a task.

    The function maps an encoder to its score, or to {name: score}.

    Scores lie between -1 and 1, and higher is better; tables print them x 100. `title` is printed
    there.
    """
    if name in GROUPS:
        raise InputError(f"task {name!r}: a group of tasks has this name; choose another name")

    def load(function: Callable[[SentenceEncoder], float | Mapping[str, float]]) -> NamedTask:
        return NamedTask(title or name, "", lambda name, _: FunctionTask(name, function))

    return TASKS.adding(name, load)


GROUPS: Mapping[str, tuple[str, ...]] = {
    # The seven of ConSERT, Table 2.
    "sts": tuple(_STS),
    # The same pairs, with SentEval's text.
    "senteval-sts": tuple(_SENTEVAL_STS),
    "sts17": tuple(_STS17),
    "stsb-multi": tuple(_STSB),
    # SentEval's, in the order of its papers' tables.
    "transfer": tuple(_TRANSFER),
    "senteval": tuple(f"senteval-{name}" for name in _TRANSFER),
    # With 50 hidden units: SG-OPT, Table 9.
    "senteval-50": tuple(f"senteval-50-{name}" for name in _TRANSFER),
}
"""Named sets of tasks that have an average."""

_GROUP_TITLES = {
    "sts": "STS",
    "senteval-sts": "SentEval STS",
    "sts17": "STS17",
    "stsb-multi": "STS-B in 11 languages",
    "transfer": "Transfer",
    "senteval": "SentEval",
    "senteval-50": "SentEval, 50 hidden units",
}


def load_tasks(tasks: TaskSource | Sequence[TaskSource] | None = None) -> list[Task]:
    """Reads the data of tasks. A task that is named twice is read once.

    Args:
        tasks: one or several. Each is a name of `TASKS`; a name of `GROUPS`, which stands for all
            tasks of the group; scored pairs, as a file or a dataset's split such as "stsb:dev";
            "geometry:DATA", the geometry on scored or labelled pairs; "classification:DATA", texts
            with labels; "retrieval:DATA", pairs where each first text has to find its second among
            all, or a folder in BEIR's layout ("retrieval:nfcorpus", its test split, or
            "retrieval:nfcorpus:dev"); or `TaskRows`. A file's columns may stand behind its name:
            "pairs.csv,first,second,grade", "retrieval:notes.jsonl,title,body",
            "classification:reviews.csv,text,stars". If None or empty, the tasks are the seven of
            the group "sts" if this machine has their data, and "stsb-open" otherwise.

    Raises:
        InputError: a task is neither known nor a file, two tasks or their scores have one name, or
            the data of a task cannot be read. All names are looked at before the first data are
            read.
    """
    found = [_find(task) for task in named_tasks(tasks)]
    _refuse_repeated([task.name for task in found], "the name")
    loaded = [task.read() for task in found]
    _refuse_repeated(chain.from_iterable(task.score_names for task in loaded), "a score")
    return loaded


def _refuse_repeated(names: Iterable[str], what: str) -> None:
    """Refuses two tasks of one name, or with one name among their scores."""
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise InputError(f"{count} tasks have {what} {name!r}; give TaskRows another name")


def named_tasks(tasks: TaskSource | Sequence[TaskSource] | None = None) -> list[TaskSource]:
    """The tasks that `load_tasks` reads for this argument, each once.

    The tasks of a group stand in its place.
    """
    if isinstance(tasks, TaskSource):
        tasks = [tasks]
    elif is_table(tasks) or isinstance(tasks, Mapping) or not isinstance(tasks, Iterable | None):
        raise _no_task(tasks)
    members: list[TaskSource] = []
    for task in tasks or _default_tasks():
        if not isinstance(task, TaskSource):
            raise _no_task(task)
        if isinstance(task, str) and task in GROUPS:
            members += GROUPS[task]
        else:
            members.append(task)
    return list(dict.fromkeys(members))


def _default_tasks() -> tuple[str, ...]:
    """The group of the seven STS tasks if this machine has their data, or else the bundled task."""
    if all(available(task) for task in GROUPS["sts"]):
        return ("sts",)
    return ("stsb-open",)


def _no_task(got: object) -> InputError:
    """The error for something that is given in place of a task, such as its rows."""
    text = " ".join(repr(got).split())
    return InputError(
        f"tasks: {text:.80} is neither a task's name nor a file; rows from memory are a task as "
        'TaskRows("similarity", [("a text", "another", 2.0), ...]), or of the kind "retrieval" or '
        '"classification"'
    )


def load_dev(source: str) -> DevTask:
    """Reads what chooses a step: retrieval:DATA, classification:DATA or scored pairs.

    Of a dataset, the scored pairs are those of dev.
    """
    kind, data = _kind_and_data(source)
    if kind in _LOADERS:
        return _LOADERS[kind](source, data)
    return _load_pairs("", source)


def _load_pairs(name: str, source: Source) -> STSTask:
    """Reads scored pairs as a task of this name, or else of the name that their source has."""
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
_KINDS = ("geometry", *_LOADERS)
"""The kinds of task that stand before their data, as in retrieval:faq.tsv."""


def _kind_and_data(name: str) -> tuple[str, str]:
    """The parts of a name: ("retrieval", "faq.tsv").

    The first part is "" where no kind stands before the data. A kind without data is refused.
    """
    kind, _, data = name.partition(":")
    if kind not in _KINDS or name in TASKS:
        return "", name
    if not data:
        raise InputError(f"{kind}: name the data behind this kind of task, as in {kind}:DATA")
    return kind, data


def with_whole_path(task: str) -> str:
    """The name of a task, with the whole path of the file or folder in it."""
    kind, data = _kind_and_data(task)
    data, others = place_and_others(data)
    if others:
        others = f"{AMONG}{with_whole_path(others)}"
    place, part = place_and_part(data)
    is_named = place.partition(":")[0] in {"none", *TASKS, *GROUPS, *DATASETS}
    if is_named or not os.path.exists(place):
        return task
    whole = f"{os.path.abspath(place)}{part}{others}"
    return f"{kind}:{whole}" if kind else whole


def source_of(task: TaskSource) -> str:
    """A task's data: a file, a folder, a dataset's "name:split" or "name".

    It is empty where the task has its data itself.
    """
    return _find(task).source


class FoundTask(NamedTuple):
    """A task that a user has named; its data are not read yet."""

    name: str
    """The name that the task will have."""

    source: str
    """The task's data, as `source_of` gives them."""

    read: Callable[[], Task]
    """Reads the data."""


def _find(task: TaskSource) -> FoundTask:
    """Finds what a user has named; raises `InputError` if there is no such task or file."""
    if isinstance(task, TaskRows):
        return _find_rows(task)
    if isinstance(task, Path):
        return FoundTask(str(task), str(task), lambda: _load_pairs(str(task), task))
    if task in TASKS:
        return _find_named(task)
    kind, data = _kind_and_data(task)
    if kind == "geometry":
        return FoundTask(task, data, lambda: load_geometry(task, data))
    if kind:
        place, _ = place_and_part(data)
        return FoundTask(task, place, lambda: _LOADERS[kind](task, data))
    dataset, _, split = task.partition(":")
    if dataset in DATASETS:
        source = f"{dataset}:{split or 'test'}"
        return FoundTask(task, source, lambda: _load_pairs(task, source))
    place, _ = place_and_part(task)
    if os.path.isfile(place):
        return FoundTask(task, place, lambda: _load_pairs(task, task))
    if "." in task or os.path.basename(task) != task:
        raise InputError(f"{task}: no such file, and no task has this name")
    raise unknown("task or file", task, [*TASKS, *GROUPS])


def _find_rows(rows: TaskRows) -> FoundTask:
    """The task of rows from memory, whose name must not be that of a known task."""
    if rows.name in TASKS or rows.name in GROUPS:
        raise InputError(f"a known task has the name {rows.name!r}; give TaskRows another name")
    return FoundTask(rows.name, "", lambda: _LOADERS[rows.kind](rows.name, rows.read()))


def _find_named(name: str) -> FoundTask:
    """The task with this name in `TASKS`, with the data that this machine has."""
    task = TASKS[name]
    source = task.source
    if task.stand_in and not available(source):
        source = task.stand_in
    return FoundTask(name, source, lambda: task.load(name, source))


def task_title(name: str) -> str:
    """The title in tables of a task, or of a group's average. A file's title is its path."""
    if name in GROUPS:
        return f"{_GROUP_TITLES[name]} average"
    if name in TASKS:
        return TASKS[name].title
    return name

"""The names of tasks and their scores as readers of a page say them.

The log and the JSON files have the names that users give.
"""

import re
from collections.abc import Iterable

from isotune.data.records import FORMATS
from isotune.evaluation.results import ENDING, MEASURE_TITLES, without_folders
from isotune.evaluation.task_rows import place_and_others
from isotune.evaluation.tasks import task_title

KINDS = {
    "retrieval": "search in ",
    "classification": "labels of ",
    "similarity": "",
    "geometry": "geometry of ",
}
"""What is said for the kind that stands before the data of a task."""

_SUFFIXES = "|".join(suffix.removeprefix(".") for suffix in FORMATS)
COLUMNS = re.compile(rf"(?<=\S)(\.(?:{_SUFFIXES})(?:\.gz)?),.*", re.DOTALL)
"""The columns behind the name of a file."""


def score_title(score: str) -> str:
    """A task or one of its scores: "search in test.jsonl" for "retrieval:test.jsonl,text,answer".

    Known tasks have the title of tables.
    """
    known = task_title(score)
    if known != score:
        return known
    kind, _, data = score.partition(":")
    if kind not in KINDS:
        kind, data = "", score
    ending = ENDING.search(data)
    data, others = place_and_others(ENDING.sub("", data))
    title = KINDS.get(kind, "") + _file_title(data)
    if others:
        title += f" among {_file_title(others)}"
    if ending:
        title += f" ({MEASURE_TITLES[ending[1]]})"
    return title


def score_titles(scores: Iterable[str]) -> dict[str, str]:
    """The titles of some scores. Scores that would have one title keep their names."""
    named = {score: score_title(score) for score in scores}
    titles = list(named.values())
    for score, title in named.items():
        if titles.count(title) > 1:
            named[score] = score
    return named


def _file_title(data: str) -> str:
    """The name of a task's data, without folders and columns."""
    return task_title(COLUMNS.sub(r"\1", without_folders(data)))

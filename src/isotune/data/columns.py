"""What the columns of records hold: texts, labels, numbers, paths; their lengths and scripts.

The values alone decide. What a column is for is also said by its name; `recipes/doors.py` reads
names.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import regex

from isotune.data.rows import Record, copy_key, is_missing, is_text_list, label_value
from isotune.errors import InputError

Kind: TypeAlias = Literal[
    "text", "text lists", "labels", "label lists", "numbers", "words", "paths", "other", "empty"
]

LABEL_WORDS = 5
"""A label has no more words in the median."""

LABEL_ROWS = 4
"""A column has labels if each of its values stands in so many rows in the mean."""

MOST_LABELS = 500
"""A column with more different values has no labels."""

MOST_NUMBERS = 12
"""A column of numbers with more different values has no labels."""

UNREADABLE = object()
"""Stands for a value that can't be read, such as a time with nanoseconds."""

SCRIPT_CHARACTERS = 1_000_000
"""Characters whose scripts are counted."""

OTHER_SCRIPT = "others"
"""The name of all scripts that are not among `SCRIPTS`."""

SCRIPTS = (
    "Latin",
    "Cyrillic",
    "Greek",
    "Armenian",
    "Georgian",
    "Hebrew",
    "Arabic",
    "Devanagari",
    "Bengali",
    "Gurmukhi",
    "Gujarati",
    "Oriya",
    "Tamil",
    "Telugu",
    "Kannada",
    "Malayalam",
    "Sinhala",
    "Thai",
    "Lao",
    "Tibetan",
    "Myanmar",
    "Khmer",
    "Ethiopic",
    "Hangul",
    "Hiragana",
    "Katakana",
    "Han",
)
"""The scripts of Unicode that are told apart."""

_RUNS_OF_SCRIPT = "|".join(
    rf"(?P<{script}>[\p{{Script={script}}}&&\p{{L}}]+)" for script in SCRIPTS
)
_LETTERS = regex.compile(rf"(?V1){_RUNS_OF_SCRIPT}|(?P<{OTHER_SCRIPT}>\p{{L}})")

_PATH = regex.compile(r"\S*[/\\]\S+|\S+\.(?:txt|pdf|jpe?g|png|gif|wav|mp[34]|html?)")
"""Without white space, and with a slash or the ending of a file; addresses of the web too."""

_QUESTION = regex.compile(r"[?\uff1f\u061f]\W*$")
"""The end of a question in Latin, Chinese or Arabic script."""

_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
"""A letter of a script that writes no spaces between words."""


class Spread(NamedTuple):
    """How long texts are."""

    low: int
    """A twentieth of the texts are shorter."""

    median: int

    high: int
    """A twentieth of the texts are longer."""


@dataclass(frozen=True)
class Column:
    """What a column holds."""

    name: str

    kind: Kind
    """Text; lists of texts; labels, few values; lists of labels; numbers; words, one a cell, such
    as ids and dates; paths or addresses; other values than text and numbers; or nothing."""

    filled: int
    """The rows that have a value."""

    different: int
    """How many different values, or items of lists, there are. Letters and digits of texts are
    compared, but not of texts in lists."""

    classes: tuple[tuple[str, int], ...] = ()
    """Each label with the number of its rows, the most frequent first; empty without labels."""

    numbers: tuple[float, float] | None = None
    """The lowest and the highest value where all values are numbers."""

    questions: float = 0.0
    """The share of the texts that end in a question mark."""

    characters: Spread | None = None
    """None where the column has no text."""

    words: Spread | None = None
    """Words are split at white space. None where the column has no text."""

    tokens: Spread | None = None
    """None where the column has no text, or no model was given."""


def describe_columns(records: Sequence[Record]) -> list[Column]:
    """What each column of the records holds, in the order of the columns."""
    names: dict[str, None] = {}
    for record in records:
        names |= dict.fromkeys(record)
    return [_describe(name, cells(records, name)) for name in names]


def cells(records: Iterable[Record], name: str) -> list[object]:
    """The values of a column that are not missing and not blank."""
    values = []
    for record in records:
        value = _value(record, name)
        is_blank = isinstance(value, str) and not value.strip()
        if not is_blank and not is_missing(value):
            values.append(value)
    return values


def text_of(record: Record, name: str) -> str:
    """The stripped text of a column; empty for what is no text."""
    value = _value(record, name)
    if isinstance(value, str):
        return value.strip()
    return ""


def _value(record: Record, name: str) -> object:
    """The value of a column; None where there is none, `UNREADABLE` where it can't be read."""
    try:
        return record.get(name)
    except InputError:
        return UNREADABLE


def spread(lengths: Sequence[int]) -> Spread:
    """The 5 %, 50 % and 95 % quantiles of some lengths, one or more."""
    low, median, high = np.quantile(lengths, [0.05, 0.5, 0.95]).round().astype(int).tolist()
    return Spread(low, median, high)


def scripts(texts: Iterable[str]) -> dict[str, float]:
    """The share of each script among the letters of texts, the largest first."""
    letters: Counter[str] = Counter()
    looked_at = 0
    for text in texts:
        for run in _LETTERS.finditer(text):
            letters[str(run.lastgroup)] += len(run[0])
        looked_at += len(text)
        if looked_at > SCRIPT_CHARACTERS:
            break
    total = letters.total()
    return {script: count / total for script, count in letters.most_common()}


def _describe(name: str, values: Sequence[object]) -> Column:
    if not values:
        return Column(name, "empty", 0, 0)
    shown = _as_text(values)
    if shown is None:
        return _describe_lists(name, values)
    counts = Counter(shown)
    numbers = _range(shown)
    kind = _kind(shown, counts, is_numeric=numbers is not None)
    if kind == "labels":
        classes = tuple(counts.most_common())
        return Column(name, kind, len(shown), len(counts), classes, numbers)
    if kind != "text":
        return Column(name, kind, len(shown), len(counts), numbers=numbers)
    return Column(
        name,
        kind,
        len(shown),
        different=len(set(map(copy_key, shown))),
        questions=sum(1 for text in shown if _QUESTION.search(text)) / len(shown),
        characters=spread([len(text) for text in shown]),
        words=spread([len(text.split()) for text in shown]),
    )


def _describe_lists(name: str, values: Sequence[object]) -> Column:
    """What a column holds whose values are neither all text nor all numbers."""
    items = _as_text(_items(values))
    if not items:
        return Column(name, "other", len(values), 0)
    counts = Counter(items)
    kind = _kind(items, counts, is_numeric=_range(items) is not None)
    if kind == "labels":
        classes = tuple(counts.most_common())
        return Column(name, "label lists", len(values), len(counts), classes)
    if kind == "text" and all(map(is_text_list, values)):
        return Column(name, "text lists", len(values), len(counts))
    return Column(name, "other", len(values), 0)


def _items(values: Iterable[object]) -> list[object]:
    """The items of lists; none if a value is no list, or a list that has an item twice.

    Labels and texts are named once, but token ids, numbers of a mask and words of a sentence are
    repeated. There are many of them, so the first such list ends the search.
    """
    items: list[object] = []
    for value in values:
        if not isinstance(value, list | tuple):
            return []
        if len(set(map(repr, value))) < len(value):
            return []
        items += value
    return items


def _as_text(values: Iterable[object]) -> list[str] | None:
    """The values as text; None if some are neither text nor numbers."""
    shown = []
    for value in values:
        if isinstance(value, list | tuple):
            return None
        try:
            shown.append(label_value(value, column="", place=""))
        except InputError:
            return None
    return shown


def _range(shown: Iterable[str]) -> tuple[float, float] | None:
    """The lowest and the highest of some numbers; None if one is no finite number."""
    try:
        numbers = [float(text) for text in shown]
    except ValueError:
        return None
    if not all(map(math.isfinite, numbers)):
        return None
    return min(numbers), max(numbers)


def _kind(shown: Sequence[str], counts: Mapping[str, int], is_numeric: bool) -> Kind:
    """What values are that are all text or numbers."""
    repeats = len(shown) >= LABEL_ROWS * len(counts)
    if is_numeric:
        return "labels" if repeats and len(counts) <= MOST_NUMBERS else "numbers"
    words = np.median([len(text.split()) for text in counts])
    if repeats and len(counts) <= MOST_LABELS and words <= LABEL_WORDS:
        return "labels"
    if _matching(_PATH.fullmatch, shown) > len(shown) / 2:
        return "paths"
    if words == 1 and _matching(_UNSPACED.search, shown) < len(shown) / 2:
        return "words"
    return "text"


def _matching(match: Callable[[str], object], shown: Iterable[str]) -> int:
    """How many texts a regular expression matches."""
    return sum(1 for text in shown if match(text))

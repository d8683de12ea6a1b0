"""The kinds of row, and how a record of a file becomes rows of one kind.

A kind of row is a NamedTuple class: its text fields come first and are stripped strings, never blank; a label
is a string, a score a finite float. A record is one line of a source as it stands: {column name: value}.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, TypeVar, cast, get_args

from isotune.errors import InputError, unknown


class Sentence(NamedTuple):
    """One sentence, with no label."""

    sentence: str


class Pair(NamedTuple):
    """Two sentences that mean the same, or at least belong together."""

    sentence1: str
    sentence2: str


class Triplet(NamedTuple):
    """A sentence, one that means the same and one that doesn't (a hard negative)."""

    anchor: str
    positive: str
    negative: str


class LabelledPair(NamedTuple):
    """Two sentences and the class of their relation, such as "entailment"."""

    sentence1: str
    sentence2: str
    label: str


class LabelledSentence(NamedTuple):
    """One sentence and its class, such as a sentiment."""

    sentence: str
    label: str


class ScoredPair(NamedTuple):
    """Two sentences and how similar they are; the scale is the source's own, higher is more similar."""

    sentence1: str
    sentence2: str
    score: float


Row: TypeAlias = Sentence | Pair | Triplet | LabelledPair | LabelledSentence | ScoredPair
ROW_TYPES: Mapping[str, type[Row]] = MappingProxyType({row_type.__name__: row_type for row_type in get_args(Row)})
R = TypeVar("R", bound=Row)
Record: TypeAlias = Mapping[str, object]
Records: TypeAlias = Iterator[tuple[int, Record]]  # with each record's line (or row) number, from 1

# The column names understood without being told, in order of preference; those of a tuple go together. First
# are always the fields' own names, and by them TEXT_COLUMNS is looked up.
_SENTENCES = (("sentence",), ("text",))
_PAIRS = (
    ("sentence1", "sentence2"),  # STS, GLUE
    ("anchor", "positive"),  # sentence-transformers
    ("premise", "hypothesis"),  # SNLI, MNLI on the hub
    ("question1", "question2"),  # Quora
    ("sentence_A", "sentence_B"),  # SICK
)
_TRIPLETS = (
    ("anchor", "positive", "negative"),  # sentence-transformers
    ("sent0", "sent1", "hard_neg"),  # SimCSE's nli_for_simcse.csv
)
TEXT_COLUMNS: Mapping[tuple[str, ...], tuple[tuple[str, ...], ...]] = MappingProxyType(
    {names[0]: names for names in (_SENTENCES, _PAIRS, _TRIPLETS)}
)
VALUE_COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "label": ("label", "gold_label", "entailment", "entailment_judgment"),
        "score": ("score", "similarity_score", "relatedness_score", "label"),
    }
)


def texts(row: type[R]) -> tuple[str, ...]:
    """The text fields of a kind of row: all but its label or score."""
    return tuple(field for field in row._fields if field not in VALUE_COLUMNS)


def to_rows(
    source: str, records: Iterable[tuple[int, Record]], row: type[R], columns: Mapping[str, str] | None = None
) -> Iterator[R]:
    """Turns records into rows, one at a time.

    A record gives one row, except that for `Sentence` each of its text columns gives one, or none if blank.

    Args:
        source: What the records are from, for error messages.
        records: (line number, record); the columns are decided on the first one.
        row: The kind of row to make.
        columns: field -> column, for columns that don't have one of the usual names.

    Raises:
        InputError: A column is missing, a value isn't what its field takes, or there is no row at all.
    """
    groups: list[tuple[str, ...]] = []
    found = False
    for number, record in records:
        groups = groups or _layout(source, row, list(record), columns or {})
        place = f"{source}:{number}"
        for group in groups:
            values = [
                _VALUES.get(field, _text)(_cell(record, column, place), column, place)
                for field, column in zip(row._fields, group, strict=True)
            ]
            if "" not in values:
                found = True
                yield cast(R, row._make(values))
            elif row is not Sentence:
                raise InputError(f"{place}: {group[values.index('')]} is blank")
    if not found:
        raise InputError(f"{source}: nothing in it but blank lines or a header")


def layout(row: type[R], have: Collection[str], columns: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Which columns fill the fields of a row: a tuple for each row that a record gives, none if that can't be told."""
    fields = texts(row)
    values = {f: c for f in row._fields[len(fields) :] for c in reversed(VALUE_COLUMNS[f]) if c in have}
    for names in TEXT_COLUMNS[fields]:
        chosen = {**dict(zip(fields, names, strict=True)), **values, **columns}
        if chosen.keys() == set(row._fields) and all(column in have for column in chosen.values()):
            return [tuple(chosen[field] for field in row._fields)]
    if row is Sentence:
        for names in (*_TRIPLETS, *_PAIRS):
            if all(name in have for name in names):
                return [(name,) for name in names]
    return []


def _layout(source: str, row: type[R], have: list[str], columns: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The layout of a source; it's an error if there is none."""
    for field, column in columns.items():
        if field not in row._fields:
            raise unknown(f"field of {row.__name__}", field, row._fields)
        if column not in have:
            raise InputError(f"{source}: no column {column!r}; it has {_names(have)}")
    if groups := layout(row, have, columns):
        return groups
    if have == ["sentence"]:
        raise InputError(
            f"{source}: it has sentences only, and {row.__name__} needs {', '.join(row._fields)}: "
            "use a .csv, .tsv, .jsonl or .parquet file with these columns"
        )
    fields = texts(row)
    usual = " or ".join(", ".join(names) for names in TEXT_COLUMNS[fields][:2])
    also = "".join(f", and {field}" for field in row._fields[len(fields) :])
    raise InputError(
        f"{source}: can't tell which columns hold {', '.join(row._fields)}: it has {_names(have)}. "
        f"Name them with columns, or call them {usual}{also}"
    )


def _names(columns: Iterable[str]) -> str:
    # Cut, because what should be a header can be any text.
    return textwrap.shorten(", ".join(map(repr, columns)), 300, placeholder=" ...")


def _cell(record: Record, column: str, place: str) -> object:
    try:
        return record[column]
    except KeyError:
        raise InputError(f"{place}: no {column!r}; it has {_names(record)}") from None


def _text(value: object, column: str, place: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{place}: {column} must be text, not {type(value).__name__}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InputError(f"{place}: {column} has half a surrogate pair, which is no character") from None
    return value.strip()


def _label(value: object, column: str, place: str) -> str:
    return str(value) if isinstance(value, int) else _text(value, column, place)


def _score(value: object, column: str, place: str) -> float:
    try:
        score = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise InputError(f"{place}: {column} must be a finite number, not {value!r:.50}")
    return score


_VALUES: Mapping[str, Callable[[object, str, str], object]] = MappingProxyType({"label": _label, "score": _score})

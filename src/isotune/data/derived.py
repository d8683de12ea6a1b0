"""Rows of one type made from rows of another type, while they are read.

| rows asked for | made from | which |
|---|---|---|
| `Pair` | labelled pairs | those that mean the same; in language inference, the entailed ones |
| `Pair` | scored pairs | those with at least a given score |
| `Triplet` | labelled pairs | a premise, a hypothesis that it entails, one that it contradicts |

The k-th entailed hypothesis of a premise goes with its k-th contradicted hypothesis, in the order
of the source, so no hypothesis is used twice. A triplet is given as soon as its last part is read;
memory grows with the distinct premises.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Generic, TypeVar, cast

from isotune.data.rows import (
    LabelledPair,
    Pair,
    R,
    Record,
    Row,
    ScoredPair,
    Triplet,
    label_value,
    match_columns,
    text_fields,
    to_rows,
)
from isotune.errors import InputError

# The labels of natural language inference; "-" is SNLI's label of pairs on which the annotators
# disagree.
NLI_LABELS = frozenset({"entailment", "neutral", "contradiction", "not_entailment", "-"})
_OPPOSITE = {"entailment": "contradiction", "contradiction": "entailment"}

P = TypeVar("P", ScoredPair, LabelledPair)


@dataclass(frozen=True)
class RowQuery(Generic[R]):
    """Which rows to make of the records of a source.

    It holds the arguments of `read`, and what the catalogue adds.
    """

    row_type: type[R]

    columns: Mapping[str, str] = field(default_factory=dict)
    """For each field of the rows that the records hold, its column."""

    labels: Sequence[str] = ()
    """The labels that labelled rows can have; empty if they can have any."""

    min_words: int | None = None
    min_score: float | None = None

    positive: str = ""
    """The label, in lower case, of pairs that mean the same.

    If it is empty and the first label is one of natural language inference, the entailed pairs are
    taken.
    """


@dataclass(frozen=True)
class _Derived:
    """Rows, and the conditions that a record must fulfil to give one, for an error if none does."""

    rows: Iterator[Row]
    conditions: Sequence[str] = ()


def make_rows(
    source: str, records: Iterable[tuple[int, Record]], query: RowQuery[R]
) -> Iterator[R]:
    """Makes the rows that records hold, or that can be made of the rows that they hold.

    The first record decides which of the two.
    """
    derived = _derive(source, iter(records), query)
    rows = derived.rows
    conditions = list(derived.conditions)
    if query.min_words is not None:
        rows = _with_words(rows, query.row_type, query.min_words)
        conditions.append(f"at least {query.min_words} words in each text")
    is_empty = True
    for row in rows:
        is_empty = False
        yield cast(R, row)
    if is_empty:
        raise InputError(
            f"{source}: no {query.row_type.__name__} in it with {' and '.join(conditions)}"
        )


def _with_words(rows: Iterable[Row], row_type: type[R], least: int) -> Iterator[Row]:
    """The rows of which each text has at least `least` words."""
    width = len(text_fields(row_type))
    for row in rows:
        if all(len(str(text).split()) >= least for text in row[:width]):
            yield row


def _derive(source: str, records: Iterator[tuple[int, Record]], query: RowQuery[R]) -> _Derived:
    row_type = query.row_type
    if row_type is Pair and query.min_score is not None:
        scored = to_rows(source, records, ScoredPair, query.columns)
        condition = f"a score of at least {query.min_score:g}"
        least = query.min_score
        return _Derived(_pairs_where(scored, lambda pair: pair.score >= least), [condition])

    first = next(records, None)
    if first is None:
        no_rows = to_rows(source, records, row_type, query.columns)
        return _Derived(no_rows)
    records = chain([first], records)
    _, record = first
    label = _first_label(record, query.columns)
    if row_type is Pair and query.positive:
        return _pairs_with_label(source, records, query.positive, query.columns)
    if row_type is Pair and label is not None:
        if label:
            _require_known_label(source, label, query.columns)
        return _pairs_with_label(source, records, "entailment", query.columns)
    has_triplets = bool(match_columns(Triplet, list(record), query.columns))
    if row_type is Triplet and label is not None and not has_triplets:
        labelled = to_rows(source, records, LabelledPair, query.columns)
        return _Derived(_triplets(labelled), ["an entailed and a contradicted hypothesis"])
    rows = to_rows(source, records, row_type, query.columns, query.labels)
    return _Derived(rows)


def _first_label(record: Record, columns: Mapping[str, str]) -> str | None:
    """The label of a first record, in lower case; None if the record is no labelled pair."""
    for *_, column in match_columns(LabelledPair, list(record), columns):
        value = record[column]
        try:
            return label_value(value, column, place="").casefold()
        except InputError:
            return str(value).strip().casefold()
    return None


def _require_known_label(source: str, label: str, columns: Mapping[str, str]) -> None:
    """Raises `InputError` if nothing says which label pairs have that mean the same."""
    if label in NLI_LABELS or "label" in columns:
        return
    raise InputError(
        f"{source}: can't tell which pairs mean the same: the first has the label {label!r}, and "
        "only labels of natural language inference, such as entailment, are known. Name the label "
        "with positive; or, if higher labels are more similar, give min_score (1 takes labels of 1 "
        "or more)"
    )


def _pairs_with_label(
    source: str,
    records: Iterable[tuple[int, Record]],
    label: str,
    columns: Mapping[str, str],
) -> _Derived:
    labelled = to_rows(source, records, LabelledPair, columns)
    alike = _pairs_where(labelled, lambda pair: pair.label.casefold() == label)
    return _Derived(alike, [f"the label {label}"])


def _pairs_where(pairs: Iterable[P], fits: Callable[[P], bool]) -> Iterator[Pair]:
    """The sentences of the scored or labelled pairs that fit."""
    for pair in filter(fits, pairs):
        yield Pair(pair.sentence1, pair.sentence2)


def _triplets(pairs: Iterable[LabelledPair]) -> Iterator[Triplet]:
    # For each premise and label, the hypotheses that wait for a hypothesis of the opposite label.
    waiting: defaultdict[tuple[str, str], deque[str]] = defaultdict(deque)
    for premise, hypothesis, label in pairs:
        label = label.casefold()
        if label not in _OPPOSITE:
            continue
        partners = waiting.get((premise, _OPPOSITE[label]))
        if not partners:
            waiting[premise, label].append(hypothesis)
        elif label == "entailment":
            yield Triplet(premise, positive=hypothesis, negative=partners.popleft())
        else:
            yield Triplet(premise, positive=partners.popleft(), negative=hypothesis)

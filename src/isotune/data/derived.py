"""Rows of one type made from rows of another type, while they are read.

| rows asked for | made from | which |
|---|---|---|
| `Pair` | labelled pairs | pairs that mean the same; in natural language inference, the entailed pairs |
| `Pair` | scored pairs | pairs with at least a given score |
| `Triplet` | labelled pairs | a premise, a hypothesis that it entails, and a hypothesis that it contradicts |

The k-th entailed hypothesis of a premise goes with its k-th contradicted hypothesis, in the order of the source, so no
hypothesis is used twice. A triplet is given as soon as its last part is read; memory grows with the distinct premises.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Generic, cast

from isotune.data.rows import (
    LabelledPair,
    Pair,
    R,
    Record,
    Row,
    ScoredPair,
    Triplet,
    match_columns,
    text_fields,
    to_rows,
)
from isotune.errors import InputError

# The labels of natural language inference; "-" is SNLI's label of pairs on which the annotators disagree.
NLI_LABELS = frozenset({"entailment", "neutral", "contradiction", "not_entailment", "-"})
_OPPOSITE = {"entailment": "contradiction", "contradiction": "entailment"}


@dataclass(frozen=True)
class RowQuery(Generic[R]):
    """Which rows to make of the records of a source: the arguments of `read`, and what the catalogue adds."""

    row_type: type[R]
    columns: Mapping[str, str] = field(
        default_factory=dict
    )  # field of the rows that the records hold -> column
    min_words: int | None = None
    min_score: float | None = None
    # The label, in lower case, of pairs that mean the same. If it is empty and the first label is one of natural
    # language inference, the entailed pairs are taken.
    positive: str = ""


def make_rows(
    source: str, records: Iterable[tuple[int, Record]], query: RowQuery[R]
) -> Iterator[R]:
    """Makes the rows that records hold, or that can be made of the rows that they hold; the first record decides."""
    rows, conditions = _derive(source, iter(records), query)
    if query.min_words is not None:
        least, width = query.min_words, len(text_fields(query.row_type))
        rows = (row for row in rows if all(len(str(text).split()) >= least for text in row[:width]))
        conditions.append(f"at least {least} words in each text")
    empty = True
    for row in rows:
        empty = False
        yield cast(R, row)
    if empty:
        raise InputError(
            f"{source}: no {query.row_type.__name__} in it with {' and '.join(conditions)}"
        )


def _derive(
    source: str, records: Iterator[tuple[int, Record]], query: RowQuery[R]
) -> tuple[Iterator[Row], list[str]]:
    row_type, columns, least = query.row_type, query.columns, query.min_score
    if row_type is Pair and least is not None:
        scored = to_rows(source, records, ScoredPair, columns)
        similar = (Pair(pair.sentence1, pair.sentence2) for pair in scored if pair.score >= least)
        return similar, [f"a score of at least {least:g}"]

    first = list(islice(records, 1))
    records = chain(first, records)
    label = None  # of a labelled pair, in lower case
    for _, record in first:
        for *_, column in match_columns(LabelledPair, list(record), columns):
            label = str(record[column]).strip().casefold()
    if row_type is Pair and (label is not None or query.positive):
        if not (query.positive or label in NLI_LABELS or "label" in columns):
            raise InputError(
                f"{source}: can't tell which pairs mean the same: the first has the label {label!r}, and only labels "
                "of natural language inference, such as entailment, are known. Name the label with positive; or, if "
                "higher labels are more similar, give min_score (1 takes labels of 1 or more)"
            )
        positive = query.positive or "entailment"
        labelled = to_rows(source, records, LabelledPair, columns)
        alike = (
            Pair(pair.sentence1, pair.sentence2)
            for pair in labelled
            if pair.label.casefold() == positive
        )
        return alike, [f"the label {positive}"]
    if (
        row_type is Triplet
        and label is not None
        and not match_columns(Triplet, list(first[0][1]), columns)
    ):
        labelled = to_rows(source, records, LabelledPair, columns)
        return _triplets(labelled), ["an entailed and a contradicted hypothesis"]
    return cast(Iterator[Row], to_rows(source, records, row_type, columns)), []


def _triplets(pairs: Iterable[LabelledPair]) -> Iterator[Triplet]:
    waiting: defaultdict[tuple[str, str], deque[str]] = defaultdict(
        deque
    )  # (premise, label) -> hypotheses
    for premise, hypothesis, label in pairs:
        label = label.casefold()
        if label not in _OPPOSITE:
            continue
        if candidates := waiting.get((premise, _OPPOSITE[label])):
            partner = candidates.popleft()
            yield Triplet(
                premise,
                *((hypothesis, partner) if label == "entailment" else (partner, hypothesis)),
            )
        else:
            waiting[premise, label].append(hypothesis)

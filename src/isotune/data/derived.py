"""Rows of one kind made from another, as they are read.

| asked for | made from | which |
|---|---|---|
| `Pair` | labelled pairs | those that mean the same: of natural language inference, the entailed ones |
| `Pair` | scored pairs | those with at least the score asked for |
| `Triplet` | labelled pairs | a premise, a hypothesis it entails, one it contradicts |

A premise's k-th entailed hypothesis goes with its k-th contradicted one, in the order of the source, so that none is
used twice. A triplet is given as soon as its last part is read; memory grows with the distinct premises.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from types import MappingProxyType
from typing import cast

from isotune.data.rows import LabelledPair, Pair, R, Record, Row, ScoredPair, Triplet, layout, texts, to_rows
from isotune.errors import InputError

# The labels by which natural language inference is known; "-" is SNLI's where its annotators disagree.
NLI_LABELS = frozenset({"entailment", "neutral", "contradiction", "not_entailment", "-"})
_OPPOSITE = MappingProxyType({"entailment": "contradiction", "contradiction": "entailment"})


def make_rows(
    source: str,
    records: Iterable[tuple[int, Record]],
    row: type[R],
    columns: Mapping[str, str] | None = None,
    *,
    positive: str = "",
    min_words: int | None = None,
    min_score: float | None = None,
) -> Iterator[R]:
    """Turns records into rows that they hold (`to_rows`) or that can be made from those.

    Args:
        source: What the records are from, for error messages.
        records: (line number, record); how rows are made is decided on the first one.
        row: The kind of row to make.
        columns: field -> column, for columns that don't have one of the usual names; the fields are those of the
            kind that rows are made from.
        positive: The label of pairs that mean the same, in lower case. If empty, pairs are chosen by their label
            where the first one's is of natural language inference.
        min_words: A row is left out if one of its texts has fewer words, split at white space.
        min_score: Of scored pairs, those with at least this score are the pairs.

    Raises:
        InputError: As `to_rows`, or no row is left.
    """
    columns = columns or {}
    records = iter(records)
    first = list(islice(records, 1))
    label = _label(first[0][1], columns) if first else None
    records = chain(first, records)

    rows: Iterator[Row]
    wanted = []
    if row is Pair and min_score is not None:
        scored = to_rows(source, records, ScoredPair, columns)
        rows = (Pair(one.sentence1, one.sentence2) for one in scored if one.score >= min_score)
        wanted.append(f"a score of at least {min_score:g}")
    elif row is Pair and label is not None and (positive or label in NLI_LABELS or "label" in columns):
        positive = positive or "entailment"
        labelled = to_rows(source, records, LabelledPair, columns)
        rows = (Pair(one.sentence1, one.sentence2) for one in labelled if one.label.casefold() == positive)
        wanted.append(f"the label {positive}")
    elif row is Triplet and label is not None and not layout(Triplet, list(first[0][1]), columns):
        rows = _triplets(to_rows(source, records, LabelledPair, columns))
        wanted.append("an entailed and a contradicted hypothesis")
    else:
        rows = cast(Iterator[Row], to_rows(source, records, row, columns))
    if min_words is not None:
        width = len(texts(row))
        rows = (one for one in rows if all(len(str(text).split()) >= min_words for text in one[:width]))
        wanted.append(f"at least {min_words} words in each text")

    found = False
    for one in rows:
        found = True
        yield cast(R, one)
    if not found:
        raise InputError(f"{source}: no {row.__name__} in it with {' and '.join(wanted)}")


def _label(record: Record, columns: Mapping[str, str]) -> str | None:
    """The label of a labelled pair, to compare; None if the record isn't one."""
    for *_, column in layout(LabelledPair, list(record), columns):
        return str(record[column]).strip().casefold()
    return None


def _triplets(pairs: Iterable[LabelledPair]) -> Iterator[Triplet]:
    waiting: defaultdict[tuple[str, str], deque[str]] = defaultdict(deque)  # (premise, label) -> hypotheses
    for premise, hypothesis, label in pairs:
        label = label.casefold()
        if label not in _OPPOSITE:
            continue
        if others := waiting.get((premise, _OPPOSITE[label])):
            other = others.popleft()
            yield Triplet(premise, *((hypothesis, other) if label == "entailment" else (other, hypothesis)))
        else:
            waiting[premise, label].append(hypothesis)

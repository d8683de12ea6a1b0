"""The row types, and how a record of a file becomes rows of one type.

A row type is a NamedTuple class. Its text fields come first; they hold stripped text that is never blank. A label is
text, a score is a finite float. A record is one line of a source as {column name: value}.
"""

import logging
import math
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import NamedTuple, TypeAlias, TypeVar, cast, get_args

from isotune.errors import InputError, counted, unknown

logger = logging.getLogger(__name__)


class Sentence(NamedTuple):
    """A sentence without a label."""

    sentence: str


class Pair(NamedTuple):
    """Two sentences that mean the same, or at least belong together."""

    sentence1: str
    sentence2: str


class Triplet(NamedTuple):
    """A sentence, a sentence that means the same, and a sentence that does not (a hard negative)."""

    anchor: str
    positive: str
    negative: str


class LabelledPair(NamedTuple):
    """Two sentences and the class of their relation, such as "entailment"."""

    sentence1: str
    sentence2: str
    label: str


class LabelledSentence(NamedTuple):
    """A sentence and its class, such as a sentiment."""

    sentence: str
    label: str


HIGHEST_SCORE = 5.0
"""The score of two sentences that mean the same, in the STS tasks and wherever a source doesn't name another."""


class ScoredPair(NamedTuple):
    """Two sentences and how similar they are, on the scale of the source; higher is more similar."""

    sentence1: str
    sentence2: str
    score: float


Row: TypeAlias = Sentence | Pair | Triplet | LabelledPair | LabelledSentence | ScoredPair
ROW_TYPES: Mapping[str, type[Row]] = {row_type.__name__: row_type for row_type in get_args(Row)}
R = TypeVar("R", bound=Row)
T = TypeVar("T")
Record: TypeAlias = Mapping[str, object]
Records: TypeAlias = Iterator[
    tuple[int, Record]
]  # each record with its line (or row) number, from 1


class Cells(dict[str, object]):
    """A record of a file without types, such as .csv: its values are text, and may stand for numbers."""


BLOCK_CHARACTERS = 10_000_000  # of what is tokenised at once; 16,384 sentences of 600 characters

# The column names that need no `columns` option, in order of preference. The names of a tuple go together. The first
# tuple has the fields' own names; TEXT_COLUMNS is looked up by them.
_SENTENCES = (("sentence",), ("text",))
_PAIRS = (
    ("sentence1", "sentence2"),  # STS, GLUE
    ("anchor", "positive"),  # sentence-transformers
    ("premise", "hypothesis"),  # SNLI, MNLI on the hub
    ("question1", "question2"),  # Quora
    ("question", "sentence"),  # QNLI on the hub
    ("sentence_A", "sentence_B"),  # SICK
    ("question", "answer"),
)
_TRIPLETS = (
    ("anchor", "positive", "negative"),  # sentence-transformers
    ("sent0", "sent1", "hard_neg"),  # SimCSE's nli_for_simcse.csv
)
TEXT_COLUMNS: Mapping[tuple[str, ...], tuple[tuple[str, ...], ...]] = {
    names[0]: names for names in (_SENTENCES, _PAIRS, _TRIPLETS)
}
VALUE_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "label": ("label", "gold_label", "entailment", "entailment_judgment"),
    "score": ("score", "similarity_score", "relatedness_score", "label"),
}


def text_fields(row_type: type[R]) -> tuple[str, ...]:
    """The text fields of a row type: all fields but the label or score."""
    return tuple(field for field in row_type._fields if field not in VALUE_COLUMNS)


def to_rows(
    source: str,
    records: Iterable[tuple[int, Record]],
    row_type: type[R],
    columns: Mapping[str, str] | None = None,
) -> Iterator[R]:
    """Turns records into rows, one at a time.

    A record gives one row. There is one exception: if the row type is `Sentence`, each text column of the record gives
    a row, and a blank text gives none. The first record decides which columns are read: `columns` (field -> column)
    names those that do not have a usual name. `source` is a name for error messages.
    """
    groups: list[tuple[str, ...]] = []
    blank: list[int] = []
    empty = True
    for number, record in records:
        groups = groups or checked_columns(source, row_type, list(record), columns or {})
        place = f"{source}:{number}"
        for group in groups:
            fields = zip(row_type._fields, group, strict=True)
            try:
                values = [
                    _READ_VALUE.get(field, text_value)(record[column], column, place)
                    for field, column in fields
                ]
            except KeyError as missing:
                raise InputError(f"{place}: no {missing}; it has {_names(record)}") from None
            if "" not in values:
                empty = False
                yield cast(R, row_type._make(values))
            elif row_type is Sentence:
                blank.append(number)
            else:
                raise InputError(
                    f"{place}: {group[values.index('')]} is blank; fill it, or delete the row"
                )
    tell_blank(source, blank)
    if empty:
        raise InputError(f"{source}: nothing in it but blank lines or a header")


def tell_blank(source: str, lines: Sequence[int]) -> None:
    """Warns of the lines (of a parquet file, the rows) of a source whose text is blank and was left out."""
    if lines:
        shown = textwrap.shorten(", ".join(map(str, lines)), 60, placeholder=" ...")
        logger.warning(
            "%s: %s left out, of the lines %s", source, counted(len(lines), "blank text"), shown
        )


def match_columns(
    row_type: type[R], available: Collection[str], columns: Mapping[str, str]
) -> list[tuple[str, ...]]:
    """The columns of each row that a record gives, in the order of its fields; empty if no columns fit."""
    fields = text_fields(row_type)
    value_fields = row_type._fields[len(fields) :]
    values = {
        field: name
        for field in value_fields
        for name in reversed(VALUE_COLUMNS[field])
        if name in available
    }
    for names in TEXT_COLUMNS[fields]:
        chosen = {**dict(zip(fields, names, strict=True)), **values, **columns}
        if chosen.keys() == set(row_type._fields) and all(
            column in available for column in chosen.values()
        ):
            return [tuple(chosen[field] for field in row_type._fields)]
    if row_type is Sentence:
        for names in (*_TRIPLETS, *_PAIRS):
            if all(name in available for name in names):
                return [(name,) for name in names]
    return []


def checked_columns(
    source: str, row_type: type[R], available: list[str], columns: Mapping[str, str]
) -> list[tuple[str, ...]]:
    """The result of `match_columns` for the columns of the first record; refuses columns that don't fit."""
    for field, column in columns.items():
        if field not in row_type._fields:
            raise unknown(f"field of {row_type.__name__}", field, row_type._fields)
        if column not in available:
            raise InputError(f"{source}: no column {column!r}; it has {_names(available)}")
    if groups := match_columns(row_type, available, columns):
        return groups
    if available == ["sentence"]:
        raise InputError(
            f"{source}: it has sentences only, and {row_type.__name__} needs {', '.join(row_type._fields)}: "
            "use a .csv, .tsv, .jsonl or .parquet file with these columns"
        )
    fields = text_fields(row_type)
    usual = " or ".join(", ".join(names) for names in TEXT_COLUMNS[fields][:2])
    also = "".join(f", and {field}" for field in row_type._fields[len(fields) :])
    raise InputError(
        f"{source}: can't tell which columns hold {', '.join(row_type._fields)}: it has {_names(available)}. "
        f"Call them {usual}{also}; or name them by columns, as {fields[0]}=COLUMN, or in a task behind the file: "
        f"{source},{','.join(row_type._fields).upper()}"
    )


def _names(columns: Iterable[str]) -> str:
    # Shortened, because the first line of a file without a header can be any text.
    return textwrap.shorten(", ".join(map(repr, columns)), 300, placeholder=" ...")


def text_value(value: object, column: str, place: str) -> str:
    """The stripped text of a column; empty for None."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{place}: {column} must be text, not {value!r:.50}")
    if not is_unicode(value):
        raise InputError(f"{place}: {column} has half a surrogate pair, which is no character")
    return value.strip()


def blocks(
    items: Iterable[T], most: int, texts: Callable[[T], Iterable[object]]
) -> Iterator[list[T]]:
    """Cuts a stream into lists of `most` items, and of fewer if their texts are very long, to bound the memory."""
    block: list[T] = []
    size = 0
    for item in items:
        block.append(item)
        size += sum(len(text) for text in texts(item) if isinstance(text, str))
        if len(block) == most or size >= BLOCK_CHARACTERS:
            yield block
            block, size = [], 0
    if block:
        yield block


def is_unicode(text: str) -> bool:
    """Whether a text has no half of a surrogate pair, which JSON and Python can express and no tokenizer takes."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def normalized(text: str) -> bytes:
    """The letters and digits of a text, case folded, in UTF-8."""
    if text.isascii():  # the same result as below, ten times as fast
        return text.lower().encode().translate(None, _ASCII_WITHOUT_LETTERS_AND_DIGITS)
    return "".join(filter(str.isalnum, text.casefold())).encode()


def _label(value: object, column: str, place: str) -> str:
    return (
        str(value) if isinstance(value, Integral) else text_value(value, column, place)
    )  # numpy's integers too


def _score(value: object, column: str, place: str) -> float:
    try:
        score = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise InputError(f"{place}: {column} must be a finite number, not {value!r:.50}")
    return score


_ASCII_WITHOUT_LETTERS_AND_DIGITS = bytes(code for code in range(128) if not chr(code).isalnum())
_READ_VALUE: Mapping[str, Callable[[object, str, str], object]] = {"label": _label, "score": _score}

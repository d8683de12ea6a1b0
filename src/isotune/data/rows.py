"""The row types, and how a record of a file becomes rows of one type.

A row type is a NamedTuple class. Its text fields come first; they hold stripped text that is never
blank. A label is text, a score is a finite float. A record is one line of a source as {column name:
value}.
"""

import json
import logging
import math
import shlex
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from numbers import Integral, Real
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
    """A sentence, one that means the same, and one that does not (a hard negative)."""

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


LIST_SEPARATOR = "\x1f"
"""What stands between the labels of a text whose source has a list of them: ASCII's separator of
units, which no text has. Alone, it stands for an empty list: a text that has none of the labels."""

HIGHEST_SCORE = 5.0
"""The score of two sentences that mean the same.

It holds in the STS tasks, and wherever a source doesn't name another.
"""


class ScoredPair(NamedTuple):
    """Two sentences and how similar they are; higher is more similar, on the source's scale."""

    sentence1: str
    sentence2: str
    score: float


Row: TypeAlias = Sentence | Pair | Triplet | LabelledPair | LabelledSentence | ScoredPair
ROW_TYPES: Mapping[str, type[Row]] = {row_type.__name__: row_type for row_type in get_args(Row)}
R = TypeVar("R", bound=Row)
T = TypeVar("T")
Record: TypeAlias = Mapping[str, object]
Records: TypeAlias = Iterator[tuple[int, Record]]
"""Each record with the number of its line or row, from 1."""

_ReadValue: TypeAlias = Callable[[object, str, str], object]
"""Reads a value. The arguments are the value, its column, and its place for error messages."""


class Cells(dict[str, object]):
    """A record of a file without types, such as .csv.

    Its values are text, and may stand for numbers.
    """


BLOCK_CHARACTERS = 10_000_000
"""Characters of what is tokenised at once: 16,384 sentences of 600 characters."""

BLANK_TEXT = "blank text"
LEFT_OUT: Mapping[object, str] = {
    Sentence: BLANK_TEXT,
    LabelledSentence: "unlabelled or blank row",
}
"""What is left out where a value of a row is blank; a blank value of another row is an error."""

SEARCHED_FOR_BLANKS = 100_000
"""Later records in which an error about a blank value counts others."""

# The column names that need no `columns` option, in order of preference. The names of a tuple go
# together. The first tuple has the fields' own names; TEXT_COLUMNS is looked up by them.
_SENTENCES = (("sentence",), ("text",))
# The names are those of STS and GLUE, sentence-transformers, SNLI and MNLI on the hub, Quora, QNLI
# on the hub, SICK, and answers to questions.
_PAIRS = (
    ("sentence1", "sentence2"),
    ("anchor", "positive"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("sentence_A", "sentence_B"),
    ("question", "answer"),
)
# The names are those of sentence-transformers, of SimCSE's nli_for_simcse.csv, and of
# FlagEmbedding.
_TRIPLETS = (
    ("anchor", "positive", "negative"),
    ("query", "positive", "negative"),
    ("sent0", "sent1", "hard_neg"),
    ("query", "pos", "neg"),
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
    labels: Sequence[str] = (),
) -> Iterator[R]:
    """Turns records into rows, one at a time.

    A record gives one row. There are two exceptions: if the row type is `Sentence`, each text
    column of the record gives a row, and a blank text gives none; and a `LabelledSentence` that
    lacks its text or its label is left out. The first record decides which columns are read:
    `columns` (field -> column) names those that do not have a usual name. `source` is a name for
    error messages.
    """
    readers: list[list[tuple[str, _ReadValue]]] = []
    blank: list[int] = []
    is_empty = True
    records = iter(records)
    for number, record in records:
        if not readers:
            groups = checked_columns(source, row_type, list(record), columns or {})
            readers = [_readers(row_type, group) for group in groups]
        place = f"{source}:{number}"
        for reader in readers:
            values = _read_values(record, reader, place)
            _check_label(values[-1], labels, place)
            if "" not in values:
                is_empty = False
                yield cast(R, row_type._make(values))
            elif row_type in LEFT_OUT:
                blank.append(number)
            else:
                column, _ = reader[values.index("")]
                raise _blank_error(place, column, records)
    tell_blank(source, blank, LEFT_OUT.get(row_type, ""))
    if is_empty and blank and row_type is LabelledSentence:
        raise InputError(f"{source}: no row has both a text and a label")
    if is_empty:
        raise InputError(f"{source}: nothing in it but blank lines or a header")


def _check_label(label: object, labels: Sequence[str], place: str) -> None:
    """Refuses a label that is none of the `labels`, and not blank; without these, any is right."""
    if labels and label not in ("", *labels):
        raise InputError(f"{place}: {unknown('label', str(label), labels)}")


def _readers(row_type: type[R], group: Sequence[str]) -> list[tuple[str, _ReadValue]]:
    """For each field of the row type: its column, and the function that reads a value there."""
    readers = []
    for field, column in zip(row_type._fields, group, strict=True):
        readers.append((column, _READ_VALUE.get(field, text_value)))
    return readers


def _read_values(
    record: Record, readers: Iterable[tuple[str, _ReadValue]], place: str
) -> list[object]:
    try:
        return [read(record[column], column, place) for column, read in readers]
    except KeyError as missing:
        raise InputError(f"{place}: no {missing}; it has {_names(record)}") from None


def _blank_error(
    place: str, column: str, later_records: Iterator[tuple[int, Record]]
) -> InputError:
    """Makes the error for a blank value, which counts the later records that have one there too."""
    count = 0
    # A later record may be malformed. The blank value comes before it, and is what is told.
    with suppress(InputError):
        for _, record in islice(later_records, SEARCHED_FOR_BLANKS):
            value = record.get(column)
            is_blank_text = isinstance(value, str) and not value.strip()
            if is_blank_text or is_missing(value):
                count += 1
    if count == 0:
        return InputError(f"{place}: {column} is blank; fill it, or delete the row")
    return InputError(
        f"{place}: {column} is blank, and so it is in {counted(count, 'later row')}; fill them, "
        "or delete the rows"
    )


def tell_blank(source: str, lines: Sequence[int], what: str = BLANK_TEXT) -> None:
    """Warns of the lines of a source in which something is blank, and that were left out.

    The lines of a parquet file are its rows.
    """
    if lines:
        shown = textwrap.shorten(", ".join(map(str, lines)), 60, placeholder=" ...")
        logger.warning("%s: %s left out, of the lines %s", source, counted(len(lines), what), shown)


def match_columns(
    row_type: type[R], available: Collection[str], columns: Mapping[str, str]
) -> list[tuple[str, ...]]:
    """The columns of each row that a record gives, in the fields' order; empty if none fit."""
    text_names = text_fields(row_type)
    value_columns = _value_columns(row_type._fields[len(text_names) :], available)
    for names in TEXT_COLUMNS[text_names]:
        text_columns = dict(zip(text_names, names, strict=True))
        column_of = {**text_columns, **value_columns, **columns}
        is_whole = column_of.keys() == set(row_type._fields)
        if is_whole and set(column_of.values()).issubset(available):
            return [tuple(column_of[field] for field in row_type._fields)]
    if row_type is Sentence:
        for names in (*_TRIPLETS, *_PAIRS):
            if set(names).issubset(available):
                return [(name,) for name in names]
    return []


def _value_columns(fields: Sequence[str], available: Collection[str]) -> dict[str, str]:
    """For each label or score, the first of its usual columns that is there."""
    column_of = {}
    for field in fields:
        names = [name for name in VALUE_COLUMNS[field] if name in available]
        if names:
            column_of[field] = names[0]
    return column_of


def checked_columns(
    source: str, row_type: type[R], available: list[str], columns: Mapping[str, str]
) -> list[tuple[str, ...]]:
    """The result of `match_columns` for the first record; refuses columns that don't fit."""
    for field, column in columns.items():
        if field not in row_type._fields:
            raise _no_field(row_type, field)
        if column not in available:
            raise no_column(source, column, available)
    groups = match_columns(row_type, available, columns)
    for group in groups:
        _refuse_repeated(source, row_type, group)
    if groups:
        return groups
    all_fields = ", ".join(row_type._fields)
    if available == ["sentence"]:
        raise InputError(
            f"{source}: it has sentences only, and {row_type.__name__} needs {all_fields}: "
            "use a .csv, .tsv, .jsonl or .parquet file with these columns"
        )
    fields = text_fields(row_type)
    usual = " or ".join(", ".join(names) for names in TEXT_COLUMNS[fields][:2])
    for field in row_type._fields[len(fields) :]:
        usual += f", and {field}"
    named = " ".join(f"{field}=COLUMN" for field in row_type._fields)
    raise InputError(
        f"{source}: can't tell which columns hold {all_fields}: it has {_names(available)}. "
        f"Call them {usual}; or name them, by --columns {named} (in Python by columns). The "
        f"columns of a task stand behind the file: {source},{','.join(row_type._fields).upper()}"
    )


def _no_field(row_type: type[R], field: str) -> InputError:
    """The error for a field that a row type lacks."""
    if field not in Pair._fields:
        return unknown(f"field of {row_type.__name__}", field, row_type._fields)
    return InputError(
        f"rows of {', '.join(row_type._fields)} are needed here, and columns are named for "
        f"{' and '.join(Pair._fields)}, as --pairs names them; these are for methods of two texts: "
        "pairs or clsr, with scores cosent, with labels nli"
    )


def _refuse_repeated(source: str, row_type: type[R], group: Sequence[str]) -> None:
    """Refuses a column that would give two values of a row."""
    fields: dict[str, str] = {}
    for field, column in zip(row_type._fields, group, strict=True):
        if column in fields:
            raise InputError(
                f"{source}: the column {column!r} is read as {fields[column]} and as {field}; name "
                "two columns"
            )
        fields[column] = field


def no_column(source: str, column: str, available: Iterable[str]) -> InputError:
    """The error for a column that a source lacks."""
    return InputError(f"{source}: no column {column!r}; it has {_names(available)}")


def _names(columns: Iterable[str]) -> str:
    # The text is shortened, because the first line of a file without a header can be any text.
    return textwrap.shorten(", ".join(map(repr, columns)), 300, placeholder=" ...")


def text_value(value: object, column: str, place: str) -> str:
    """The stripped text of a column; empty for a missing value."""
    if not isinstance(value, str):
        if is_missing(value):
            return ""
        problem = f"{place}: {column} must be text, not {value!r:.50}"
        if is_text_list(value):
            problem += f"; of a .jsonl file, this makes a row of each text: {row_of_each([column])}"
        raise InputError(problem)
    if not is_unicode(value):
        raise InputError(f"{place}: {column} has half a surrogate pair, which is no character")
    return value.strip()


def is_text_list(value: object) -> bool:
    """Whether a value is a list of texts."""
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def row_of_each(columns: Iterable[str]) -> str:
    """The command that makes a row of each text of lists.jsonl, where columns have lists of texts.

    Of several columns, it makes a row of each combination; of an empty list, it makes none.
    """
    keys = [f".{json.dumps(column, ensure_ascii=False)}" for column in columns]
    program = " | ".join(f"{key} = {key}[]" for key in keys)
    # Without the name of a file, jq would wait for input.
    return f"jq -c {shlex.quote(program)} lists.jsonl > rows.jsonl"


def is_missing(value: object) -> bool:
    """Whether a value stands for none: None, NaN, or NA and NaT of pandas."""
    if value is None:
        return True
    if isinstance(value, Real):
        # NaN alone differs from itself.
        return bool(value != value)
    return type(value).__name__ in ("NAType", "NaTType")


def blocks(
    items: Iterable[T], most: int, texts: Callable[[T], Iterable[object]]
) -> Iterator[list[T]]:
    """Cuts a stream into lists of `most` items.

    A list has fewer if their texts are very long, to bound the memory.
    """
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
    """Whether a text has no half of a surrogate pair.

    JSON and Python can express such a half, and no tokenizer takes it.
    """
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def normalized(text: str) -> bytes:
    """The letters and digits of a text, case folded, in UTF-8."""
    # For ASCII, this has the same result as the last line, ten times as fast.
    if text.isascii():
        return text.lower().encode().translate(None, _ASCII_WITHOUT_LETTERS_AND_DIGITS)
    return "".join(filter(str.isalnum, text.casefold())).encode()


def copy_key(text: str) -> bytes:
    """What a text and its copies have in common: letters and digits, or else the text itself."""
    return normalized(text) or text.encode()


def label_value(value: object, column: str, place: str) -> str:
    """The label of a column; empty for a missing value.

    Several labels, a list, are joined by `LIST_SEPARATOR`, which alone stands for an empty list. A
    table turns whole numbers into floats where another row has no value. So 1.0 is the label "1".
    """
    if isinstance(value, list | tuple):
        if not value:
            return LIST_SEPARATOR
        return LIST_SEPARATOR.join(label_value(part, column, place) for part in value)
    # Integral and Real are the numbers of numpy too.
    if isinstance(value, Integral):
        return str(value)
    if isinstance(value, Real) and float(value).is_integer():
        return str(int(float(value)))
    if isinstance(value, Real) and math.isfinite(value):
        return str(float(value))
    return text_value(value, column, place)


def _score(value: object, column: str, place: str) -> float:
    try:
        score = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise InputError(f"{place}: {column} must be a finite number, not {value!r:.50}")
    return score


_ASCII_WITHOUT_LETTERS_AND_DIGITS = bytes(code for code in range(128) if not chr(code).isalnum())
_READ_VALUE: Mapping[str, _ReadValue] = {"label": label_value, "score": _score}

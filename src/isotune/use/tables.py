"""Tables of records, in which each column has one type that holds every value as it is.

A column of whole numbers and others has numbers. A column of a .csv or .tsv file has numbers or
booleans if each of its cells is one, and text otherwise. Objects, and lists of anything but texts,
numbers or booleans of one kind, become JSON text. A value is refused, with its place, if the values
before it leave no type for it.
"""

import json
import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, groupby
from tempfile import TemporaryFile
from typing import IO, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic_core import to_json

from isotune.data.rows import Cells, Record, blocks
from isotune.errors import InputError

logger = logging.getLogger(__name__)

# The type of JSON text; no other column has it.
JSON = pa.large_string()
# So many values of a column are read before their type is joined to the column's.
ROWS = 16_384
# An answer has so many objects and lists around a value; pydantic writes 254, one inside the other.
AROUND = 10
# Each whole number up to this one is a float64, too.
EXACT = 2**53
# Stands for int64, until all records are read, if a number is beyond `EXACT` and so may be no
# float64.
LARGE = pa.uint64()
# How cells are written that are numbers or booleans: 007 is a code.
NUMBER = r"^[+-]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][+-]?([0-9]{1,2}|[12][0-9]{2}|30[0-7]))?$"
# A number with more digits than float64 keeps.
LONG = r"^[+-]?(\d{17}|9\d{15})|\d[\d.]{17}\d"
BOOLEAN = "^(?i:true|false)$"
# How pyarrow and pydantic refuse values.
REFUSALS = (ValueError, TypeError, OverflowError, pa.ArrowException)
LIMITS = (
    "a whole number has at most 64 bits, a text no half of a surrogate pair, and lists and objects "
    "are at most 240 deep"
)
ADVICE = "give it values of one kind, such as text, or another name"
# The kinds of Python's values that have types of their own; a bool is an int, so it is first.
BASES = (bool, int, float, str, dict, list, tuple)
_WORDS: dict[type | pa.DataType, str] = {
    bool: "true or false",
    pa.bool_(): "true or false",
    int: "whole numbers",
    pa.int64(): "whole numbers",
    LARGE: "whole numbers",
    float: "numbers",
    pa.float64(): "numbers",
    str: "text",
    pa.string(): "text",
    list: "lists",
    dict: "objects",
    JSON: "lists or objects",
    pa.null(): "no values",
}


@contextmanager
def to_tables(
    records: Iterable[tuple[str, Record]], known: pa.Schema
) -> Iterator[tuple[pa.Schema, Iterator[pa.Table]]]:
    """Reads records, and gives the schema of their columns and tables of this schema.

    Records are (place, record) pairs. All records are read first, so that nothing is written of
    records that are refused. Until then they lie in a nameless temporary file. A column of the
    schema `known` is in the result, and keeps its type, unless that is null.
    """
    columns = {field.name: _Column(field.name, field.type) for field in known}
    with TemporaryFile() as file:
        for block in blocks(records, ROWS, lambda pair: pair[1].values()):
            for cells, pairs in groupby(block, lambda pair: isinstance(pair[1], Cells)):
                table = _table(list(pairs), cells, columns)
                with pa.ipc.new_stream(file, table.schema) as stream:
                    stream.write_table(table)
        schema = pa.schema([(name, _final(column.type)) for name, column in columns.items()])
        yield schema, _read(file, file.tell(), schema)


def _table(
    pairs: Sequence[tuple[str, Record]], cells: bool, columns: dict[str, "_Column"]
) -> pa.Table:
    """Records as a table, whose columns are added to those before."""
    places = [place for place, _ in pairs]
    records = [record for _, record in pairs]
    arrays: dict[str, pa.Array] = {}
    for name in dict.fromkeys(chain.from_iterable(records)):
        column = columns.setdefault(name, _Column(name, pa.null()))
        values = [record.get(name) for record in records]
        arrays[name] = column.add(values, places, cells)
    return pa.table(arrays)


def _read(file: IO[bytes], end: int, schema: pa.Schema) -> Iterator[pa.Table]:
    file.seek(0)
    while file.tell() < end:
        yield conform(pa.ipc.open_stream(file).read_all(), schema)


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the columns of a schema, whose types hold those of the table.

    A column that the table lacks is null.
    """
    nothing = pa.nulls(len(table))
    columns = dict(zip(table.column_names, table.columns, strict=True))
    arrays = []
    for field in schema:
        array = nothing
        if field.type != pa.null():
            array = columns.get(field.name, nothing)
        if field.type == JSON and pa.types.is_list(array.type):
            array = pa.array(_json_texts(array.to_pylist()), JSON)
        elif array.type == pa.string() and field.type != pa.string():
            array = _filled(array)
            if array.null_count == len(array):
                # Blank cells stand beside values of any type, also of those that no text becomes.
                array = nothing
        arrays.append(array.cast(field.type))
    return pa.table(arrays, schema)


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table; JSON text becomes the objects and lists that it stands for."""
    rows: list[dict[str, Any]] = table.to_pylist()
    for field in table.schema:
        if field.type != JSON:
            continue
        for row in rows:
            if row[field.name] is not None:
                row[field.name] = json.loads(row[field.name])
    return rows


def words(kind: type | pa.DataType) -> str:
    """What a column of this kind has, in plain words."""
    if isinstance(kind, pa.ListType):
        return "lists"
    if kind in _WORDS:
        return _WORDS[kind]
    if isinstance(kind, type):
        return kind.__name__
    return str(kind)


class _Column:
    def __init__(self, name: str, fixed: pa.DataType) -> None:
        self.name = name
        self.type = fixed
        # The type that the column keeps; null if it has none yet.
        self.fixed = fixed
        # Whether all values are cells, which may become text.
        self.cells = fixed == pa.null()

    def add(self, values: list[object], places: Sequence[str], cells: bool) -> pa.Array:
        """The values as an array of their own type; the column's type becomes one for them too."""
        try:
            array, has_nan = _array(values)
            joined = self._joined(array, cells)
        except REFUSALS as error:
            number = _first_failing(values, lambda some: self._refuses(some, cells))
            reason = LIMITS
            # An error of another type is a library's, in its own words.
            if type(error) is ValueError:
                reason = str(error)
            raise InputError(
                f"{places[number]}: column {self.name!r}: {values[number]!r:.60} can't be kept: "
                f"{reason}"
            ) from None
        if has_nan:
            number = _first_failing(values, lambda some: _array(some)[1])
            logger.warning(
                "%s: column %r: NaN is kept as null, which is no value", places[number], self.name
            )
        self.type = joined
        self.cells = self.cells and (cells or array.type == pa.null())
        return array

    def _refuses(self, values: list[object], cells: bool) -> bool:
        """Whether the column has no type for these values."""
        try:
            array, _ = _array(values)
            self._joined(array, cells)
        except REFUSALS:
            return True
        return False

    def _joined(self, array: pa.Array, cells: bool) -> pa.DataType:
        """The type that holds the column's values and those of an array."""
        if cells and self.fixed != pa.string() and array.type == pa.string():
            array = _of_own_type(array)
        type_ = array.type
        if _largest_magnitude(array) > EXACT:
            type_ = _large(type_)
        joined = _join(self.type, type_)
        if joined is None:
            joined = self._joined_as_text(type_, cells)
        if joined is None or self.fixed not in (pa.null(), _final(joined)):
            raise ValueError(
                f"the column has {words(self.type)} and this is {words(type_)}; {ADVICE}"
            )
        return joined

    def _joined_as_text(self, type_: pa.DataType, cells: bool) -> pa.DataType | None:
        """Text, which holds cells of any kind beside texts; None where there is no text."""
        holds_text = self.cells or self.type == pa.string()
        is_text = cells or type_ == pa.string()
        if holds_text and is_text:
            return pa.string()
        return None


def _first_failing(values: list[object], fails: Callable[[list[object]], bool]) -> int:
    """The index of the value with which the values from the first one on begin to fail a check."""
    numbers = range(len(values))
    return bisect_left(numbers, True, key=lambda last: fails(values[: last + 1]))


def _array(values: Sequence[Any]) -> tuple[pa.Array, bool]:
    """Values as an array of one type that holds each as it is but for NaN; and if there is NaN."""
    kinds = _kinds(values)
    if kinds == {list}:
        # Of None, as of an empty list, there is nothing.
        elements = list(chain.from_iterable(filter(None, values)))
        inside = _kinds(elements)
        if inside <= {int, float} or inside in ({bool}, {str}):
            inner, has_nan = _array(elements)
            return pa.array(values, pa.list_(inner.type), from_pandas=has_nan), has_nan
    if kinds and kinds <= {list, dict}:
        texts = _json_texts(values, "null")
        return pa.array(texts, JSON), texts != _json_texts(values)
    if kinds <= {int, float} and float in kinds:
        array = pa.array(values, pa.float64(), from_pandas=True)
        return array, array.null_count > sum(value is None for value in values)
    if len(kinds) > 1:
        raise ValueError(f"the column has {' and '.join(sorted(map(words, kinds)))}; {ADVICE}")
    return _usual_array(values, kinds), False


def _usual_array(values: Sequence[object], kinds: set[type]) -> pa.Array:
    """Values of one kind as an array of the type that pyarrow has for it."""
    array = pa.array(values)
    if not kinds <= {bool, int, str} and not _holds(array, values):
        # Such as a time with nanoseconds.
        raise ValueError("no type of a column holds it whole; write it as text")
    return array


def _holds(array: pa.Array, values: Sequence[object]) -> bool:
    """Whether an array of a usual type gives its values back."""
    return not isinstance(array.type, pa.BaseExtensionType) and array.to_pylist() == values


def _kinds(values: Sequence[object]) -> set[type]:
    """The kinds of values, of which a tuple is a list, and None is none."""
    kinds = set()
    for type_ in set(map(type, values)):
        kind = next((base for base in BASES if issubclass(type_, base)), type_)
        if kind is tuple:
            kind = list
        if kind is not type(None):
            kinds.add(kind)
    return kinds


def _json_texts(
    values: Iterable[object], no_number: Literal["constants", "null"] = "constants"
) -> list[str | None]:
    """Each value as JSON text; None stays."""
    texts: list[str | None] = []
    for value in values:
        if value is None:
            texts.append(None)
        else:
            texts.append(_json(value, no_number))
    return texts


def _json(value: object, no_number: Literal["constants", "null"]) -> str:
    """An object or list as JSON text; dates and decimal numbers are text, and bytes base64."""
    for _ in range(AROUND):
        value = [value]
    return to_json(value, bytes_mode="base64", inf_nan_mode=no_number).decode()[AROUND:-AROUND]


def _filled(cells: pa.Array) -> pa.Array:
    """Cells without the spaces around them; a blank one is null."""
    trimmed = pc.utf8_trim_whitespace(cells)
    return pc.if_else(pc.equal(trimmed, ""), None, trimmed)


def _of_own_type(cells: pa.Array) -> pa.Array:
    """Cells that are no blanks as numbers or booleans, if each is one."""
    texts = _filled(cells).drop_null()
    if not len(texts):
        return pa.nulls(0)
    if pc.all(pc.match_substring_regex(texts, BOOLEAN)).as_py():
        return texts.cast(pa.bool_())
    if not pc.all(pc.match_substring_regex(texts, NUMBER)).as_py():
        return texts
    with suppress(pa.ArrowException):
        return texts.cast(pa.int64())
    if pc.any(pc.match_substring_regex(texts, LONG)).as_py():
        return texts
    with suppress(pa.ArrowException):
        return texts.cast(pa.float64())
    return texts


def _largest_magnitude(array: pa.Array) -> int:
    """The largest absolute value of whole numbers, or of lists of them; 0 of anything else."""
    if pa.types.is_list(array.type):
        array = array.flatten()
    if array.type != pa.int64():
        return 0
    ends = pc.min_max(array).as_py()
    if ends["max"] is None:
        return 0
    return max(abs(ends["min"]), abs(ends["max"]))


def _large(type_: pa.DataType) -> pa.DataType:
    """Whole numbers, or lists of them, as numbers of which one may be no float64."""
    if pa.types.is_list(type_):
        return pa.list_(LARGE)
    return LARGE


def _join(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that holds the values of two types; None if there is none."""
    if one == other or other == pa.null():
        return one
    if one == pa.null():
        return other
    if pa.int64() in (one, other) and {one, other} <= {pa.int64(), LARGE, pa.float64()}:
        return _wider(one, other)
    if pa.types.is_decimal(one) and pa.types.is_decimal(other):
        return _joined_decimals(one, other)
    if pa.types.is_list(one) and pa.types.is_list(other):
        inner = _join(one.value_type, other.value_type)
        if inner is not None:
            return pa.list_(inner)
    if _can_be_json(one) and _can_be_json(other):
        return JSON
    return None


def _joined_decimals(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    schemas = [pa.schema([("", type_)]) for type_ in (one, other)]
    return pa.unify_schemas(schemas, promote_options="permissive").types[0]


def _can_be_json(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or type_ == JSON)


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The one of two types that is not int64."""
    if one == pa.int64():
        return other
    return one


def _final(type_: pa.DataType) -> pa.DataType:
    """The type of a column of which all records were read."""
    if type_ == LARGE:
        return pa.int64()
    if type_ == pa.list_(LARGE):
        return pa.list_(pa.int64())
    if type_ == pa.list_(pa.null()):
        return JSON
    return type_

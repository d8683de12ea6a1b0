"""Tables of records, in which each column has one type that holds every value as it is.

A column of whole numbers and others has numbers. A column of a .csv or .tsv file has numbers or booleans if each of its
cells is one, and text otherwise. Objects, and lists of anything but texts, numbers or booleans of one kind, become JSON
text. A value is refused, with its place, if the values before it leave no type for it.
"""

import json
import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, groupby
from tempfile import TemporaryFile
from typing import IO, Any, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc
from pydantic_core import to_json

from isotune.data.rows import Cells, Record, blocks
from isotune.errors import InputError

logger = logging.getLogger(__name__)

JSON = pa.large_string()  # the type of JSON text; no other column has it
ROWS = 16_384  # of which a column's values have one type at first
AROUND = (
    10  # objects and lists around a value in an answer; pydantic writes 254, one inside the other
)
# Stands for int64, until all records are read, if a number is beyond `EXACT` and so may be no float64.
LARGE, EXACT = pa.uint64(), 2**53
# How cells are written that are numbers or booleans: 007 is a code.
NUMBER = r"^[+-]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][+-]?([0-9]{1,2}|[12][0-9]{2}|30[0-7]))?$"
LONG = r"^[+-]?(\d{17}|9\d{15})|\d[\d.]{17}\d"  # more digits than float64 keeps
BOOLEAN = "^(?i:true|false)$"
REFUSALS = (
    ValueError,
    TypeError,
    OverflowError,
    pa.ArrowException,
)  # of values, by pyarrow and pydantic
LIMITS = "a whole number has at most 64 bits, a text no half of a surrogate pair, and lists and objects are at most 240 deep"
ADVICE = "give it values of one kind, such as text, or another name"
_WORDS: dict[type | pa.DataType, str] = {
    **dict.fromkeys((bool, pa.bool_()), "true or false"),
    **dict.fromkeys((int, pa.int64(), LARGE), "whole numbers"),
    **dict.fromkeys((float, pa.float64()), "numbers"),
    **dict.fromkeys((str, pa.string()), "text"),
    **{list: "lists", dict: "objects", JSON: "lists or objects", pa.null(): "no values"},
}


@contextmanager
def typed(
    records: Iterable[tuple[str, Record]], known: pa.Schema
) -> Iterator[tuple[pa.Schema, Iterator[pa.Table]]]:
    """Reads records; gives the schema of their columns and of those in `known`, and the records as tables of it.

    All records are read first, so that nothing is written of records that are refused. Until then they lie in a
    nameless temporary file. A known column keeps its type, unless that is null. A record stands after its place.
    """
    columns = {field.name: _Column(field.name, field.type) for field in known}
    with TemporaryFile() as file:
        for block in blocks(records, ROWS, lambda row: row[1].values()):
            for cells, group in groupby(block, lambda row: isinstance(row[1], Cells)):
                places, rows = zip(*group, strict=True)
                arrays = {}
                for name in dict.fromkeys(chain.from_iterable(rows)):
                    column = columns.setdefault(name, _Column(name, pa.null()))
                    arrays[name] = column.add([row.get(name) for row in rows], places, cells)
                table = pa.table(arrays)
                with pa.ipc.new_stream(file, table.schema) as stream:
                    stream.write_table(table)
        schema = pa.schema([(name, _final(column.type)) for name, column in columns.items()])
        yield schema, _read(file, file.tell(), schema)


def _read(file: IO[bytes], end: int, schema: pa.Schema) -> Iterator[pa.Table]:
    file.seek(0)
    while file.tell() < end:
        yield conform(pa.ipc.open_stream(file).read_all(), schema)


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the columns of a schema, whose types hold those of the table; a column that it lacks is null."""
    arrays, nothing = [], pa.nulls(len(table))
    known = dict(zip(table.column_names, table.columns, strict=True))
    for name, type_ in zip(schema.names, schema.types, strict=True):
        array = nothing if type_ == pa.null() else known.get(name, nothing)
        if type_ == JSON and pa.types.is_list(array.type):
            array = pa.array(
                [None if value is None else _json(value) for value in array.to_pylist()], JSON
            )
        elif array.type == pa.string() != type_:
            array = _filled(array)
        arrays.append(array.cast(type_))
    return pa.table(arrays, schema)


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table; JSON text becomes the objects and lists that it stands for."""
    rows: list[dict[str, Any]] = table.to_pylist()
    for name in (field.name for field in table.schema if field.type == JSON):
        for row in rows:
            row[name] = None if row[name] is None else json.loads(row[name])
    return rows


def words(kind: type | pa.DataType) -> str:
    """What a column of this kind has, in plain words."""
    if isinstance(kind, pa.ListType):
        return "lists"
    return _WORDS.get(kind) or (kind.__name__ if isinstance(kind, type) else str(kind))


class _Column:
    def __init__(self, name: str, fixed: pa.DataType) -> None:
        self.name, self.type, self.fixed, self.cells = name, fixed, fixed, fixed == pa.null()

    def add(self, values: list[object], places: Sequence[str], cells: bool) -> pa.Array:
        """The values as an array of their own type; the column's type becomes one that holds them too."""

        def place(fails: Callable[[list[object]], bool]) -> int:
            return bisect_left(range(len(values)), True, key=lambda last: fails(values[: last + 1]))

        def refused(some: list[object]) -> bool:
            with suppress(*REFUSALS):
                self._joined(_array(some)[0], cells)
                return False
            return True

        try:
            array, has_nan = _array(values)
            joined = self._joined(array, cells)
        except REFUSALS as error:
            k, reason = place(refused), str(error) if type(error) is ValueError else LIMITS
            raise InputError(
                f"{places[k]}: column {self.name!r}: {values[k]!r:.60} can't be kept: {reason}"
            ) from None
        if has_nan:
            k = place(lambda some: _array(some)[1])
            logger.warning(
                "%s: column %r: NaN is kept as null, which is no value", places[k], self.name
            )
        self.type, self.cells = joined, self.cells and (cells or array.type == pa.null())
        return array

    def _joined(self, array: pa.Array, cells: bool) -> pa.DataType:
        type_ = _type(array, cells and self.fixed != pa.string())
        joined = _join(self.type, type_)
        if (
            joined is None
            and (self.cells or self.type == pa.string())
            and (cells or type_ == pa.string())
        ):
            joined = pa.string()
        if joined is None or self.fixed not in (pa.null(), _final(joined)):
            raise ValueError(
                f"the column has {words(self.type)} and this is {words(type_)}; {ADVICE}"
            )
        return joined


def _array(values: Sequence[object]) -> tuple[pa.Array, bool]:
    """Values as an array of one type, which holds each as it is but for NaN; and whether there is NaN."""
    kinds = _kinds(values)
    if kinds == {list}:
        elements = [
            element
            for value in values
            if value is not None
            for element in cast(list[object], value)
        ]
        if (inside := _kinds(elements)) <= {int, float} or inside in ({bool}, {str}):
            inner, has_nan = _array(elements)
            return pa.array(values, pa.list_(inner.type), from_pandas=has_nan), has_nan
    if kinds and kinds <= {list, dict}:
        written = [None if value is None else _json(value) for value in values]
        texts = [
            text if value is None else _json(value, "null")
            for text, value in zip(written, values, strict=True)
        ]
        return pa.array(texts, JSON), texts != written
    if kinds <= {int, float} and float in kinds:
        array = pa.array(values, pa.float64(), from_pandas=True)
        return array, array.null_count > sum(value is None for value in values)
    if len(kinds) > 1:
        raise ValueError(f"the column has {' and '.join(sorted(map(words, kinds)))}; {ADVICE}")
    array = pa.array(values)
    if not kinds <= {bool, int, str} and (
        isinstance(array.type, pa.BaseExtensionType) or array.to_pylist() != values
    ):
        raise ValueError(
            "no type of a column holds it whole; write it as text"
        )  # such as nanoseconds
    return array, False


def _kinds(values: Sequence[object]) -> set[type]:
    bases = (bool, int, float, str, dict, list, tuple)
    kinds = {
        next((base for base in bases if issubclass(type_, base)), type_)
        for type_ in set(map(type, values))
    }
    return {list if kind is tuple else kind for kind in kinds - {type(None)}}


def _json(value: object, no_number: Literal["constants", "null"] = "constants") -> str:
    """An object or list as JSON text, in which dates and decimal numbers are text, and bytes URL-safe base64."""
    for _ in range(AROUND):
        value = [value]
    return to_json(value, bytes_mode="base64", inf_nan_mode=no_number).decode()[AROUND:-AROUND]


def _filled(cells: pa.Array) -> pa.Array:
    trimmed = pc.utf8_trim_whitespace(cells)
    return pc.if_else(pc.equal(trimmed, ""), None, trimmed)


def _type(array: pa.Array, cells: bool) -> pa.DataType:
    """The type of an array; of cells, the type that all of them can have."""
    if cells and array.type == pa.string():
        array = _filled(array).drop_null()
        if not len(array):
            return pa.null()
        if pc.all(pc.match_substring_regex(array, BOOLEAN)).as_py():
            return pa.bool_()
        if pc.all(pc.match_substring_regex(array, NUMBER)).as_py():
            is_long = pc.any(pc.match_substring_regex(array, LONG)).as_py()
            for type_ in (pa.int64(), pa.string() if is_long else pa.float64()):
                with suppress(pa.ArrowException):
                    array = array.cast(type_)
                    break
    whole = array.flatten() if pa.types.is_list(array.type) else array
    if (
        whole.type == pa.int64()
        and max(map(abs, filter(None, pc.min_max(whole).as_py().values())), default=0) > EXACT
    ):
        return pa.list_(LARGE) if pa.types.is_list(array.type) else LARGE
    return array.type


def _join(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if one == other or other == pa.null():
        return one
    if one == pa.null():
        return other
    if pa.int64() in (one, other) and {one, other} <= {pa.int64(), LARGE, pa.float64()}:
        return other if one == pa.int64() else one
    if pa.types.is_decimal(one) and pa.types.is_decimal(other):
        schemas = [pa.schema([("", type_)]) for type_ in (one, other)]
        return pa.unify_schemas(schemas, promote_options="permissive").types[0]
    if (
        pa.types.is_list(one)
        and pa.types.is_list(other)
        and (inner := _join(one.value_type, other.value_type))
    ):
        return pa.list_(inner)
    return JSON if all(pa.types.is_list(type_) or type_ == JSON for type_ in (one, other)) else None


def _final(type_: pa.DataType) -> pa.DataType:
    return {
        LARGE: pa.int64(),
        pa.list_(LARGE): pa.list_(pa.int64()),
        pa.list_(pa.null()): JSON,
    }.get(type_, type_)

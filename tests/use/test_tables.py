"""The types of columns: they hold every value as it is, in whatever blocks the values come."""

import math
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotune.data.rows import Cells
from isotune.errors import InputError
from isotune.use.tables import JSON, rows_of, to_tables

NAN = float("nan")
# Columns of cells that stay text, as they are.
TEXTS = [
    ["1", "a", ""],
    ["007", "1"],
    ["true", "1"],
    ["9007199254740993", "0.5"],
    ["9223372036854775808"],
    ["."],
    ["e5"],
    ["0x1f"],
    ["1_0"],
    ["1e999"],
    ["3.141592653589793238"],
    ["NaN"],
    ["2020-01-01"],
]


def column(
    values: Sequence[object], cut: int = 1, cells: bool = False, known: pa.DataType | None = None
) -> Any:
    """The type and the values of a column that is read in blocks; or the message of the refusal."""
    records = [
        (f"f:{number}", (Cells if cells else dict)(x=value))
        for number, value in enumerate(values, 1)
    ]
    schema = pa.schema([("x", known or pa.null())])
    try:
        with patch("isotune.use.tables.ROWS", cut), to_tables(records, schema) as (schema, tables):
            return schema.field("x").type, [row["x"] for table in tables for row in rows_of(table)]
    except InputError as error:
        return str(error)


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([1, 2.5, None], pa.float64()),
        ([None, None], pa.null()),
        ([None, True], pa.bool_()),
        ([2**60], pa.int64()),
        ([[], ["a"]], pa.list_(pa.string())),
        ([[1], [2.5]], pa.list_(pa.float64())),
        ([[], None], JSON),
        ([[1], ["a", None], [{}]], JSON),
        ([{"a": None}, {}, {"a": {"k\0": 2**70}}], JSON),
        ([[[1]], [1]], JSON),
        ([Decimal("1.5"), Decimal("100.25")], pa.decimal128(5, 2)),
        ([date(2020, 1, 1), None], pa.date32()),
        ([datetime(2020, 1, 1)], pa.timestamp("us")),
        ([time(1, 2)], pa.time64("us")),
        ([b"\xff"], pa.binary()),
    ],
)
def test_every_value_is_kept(values: list[object], type_: pa.DataType) -> None:
    assert column(values) == column(values, len(values)) == (type_, values)


@pytest.mark.parametrize(
    ("cells", "type_", "kept"),
    [
        (["1", "-20", ""], pa.int64(), [1, -20, None]),
        (["1", " 2.5", "-.5e1"], pa.float64(), [1, 2.5, -5]),
        (["True", "false"], pa.bool_(), [True, False]),
        (["", " "], pa.null(), [None, None]),
        *((cells, pa.string(), cells) for cells in TEXTS),
    ],
)
def test_cells_are_numbers_if_nothing_is_lost(
    cells: list[str], type_: pa.DataType, kept: list[object]
) -> None:
    assert column(cells, cells=True) == column(cells, len(cells), cells=True) == (type_, kept)
    assert column(cells, cells=True, known=pa.string()) == (pa.string(), cells)


@pytest.mark.parametrize(
    ("values", "known", "message"),
    [
        ([1, "a"], None, "'a' can't be kept"),
        ([0.5, 2**53 + 1], None, "9007199254740993"),
        ([1, True], None, "True"),
        ([2**53 + 1, 0.5], None, "0.5"),
        (["a", b"a"], None, "b'a'"),
        ([1, 2.5], pa.int64(), "2.5"),
        (["a", "\ud800"], None, "d800"),
        ([1, 2**64], None, "18446744073709551616"),
        ([1, object()], None, "object"),
        ([["a"], {}], pa.list_(pa.string()), "{}"),
        ([{}, {"a": "\ud800"}], None, "surrogate"),
        ([date(2020, 1, 1), datetime(2020, 1, 1)], None, "datetime"),
    ],
)
def test_a_value_without_a_type_is_refused_by_its_place(
    values: list[object], known: pa.DataType | None, message: str
) -> None:
    for cut in (0, 1, 2):
        said = column([None, *values], cut, known=known)
        assert said.startswith("f:3: column 'x': ")
        assert message in said


@pytest.mark.parametrize("value", [["a"], [1.5], {"a": 1}, date(2020, 1, 1), b"x", Decimal("1.5")])
def test_blank_cells_stand_beside_values_of_any_type(value: object) -> None:
    records = [("f:1", Cells(x="")), ("f:2", {"x": value})]
    with to_tables(records, pa.schema([])) as (_, tables):
        assert [row["x"] for table in tables for row in rows_of(table)] == [None, value]


def test_objects_that_no_answer_could_hold_are_refused() -> None:
    value: object = 1
    for _ in range(300):
        value = [value]
    assert "f:1: column 'x': " in column([value])


def test_nan_is_null_and_told(caplog: pytest.LogCaptureFixture) -> None:
    assert column([1, NAN, math.inf]) == (pa.float64(), [1, None, math.inf])
    assert column([{"a": [NAN]}])[1] == [{"a": [None]}]
    assert column([[0.5, NAN]])[1] == [[0.5, None]]
    assert [record.getMessage()[:17] for record in caplog.records] == [
        "f:2: column 'x': ",
        *["f:1: column 'x': "] * 2,
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.integers() | st.floats(allow_nan=False) | st.none() | st.booleans() | st.text(max_size=3)
    ),
    st.data(),
)
def test_any_values_are_kept_or_refused(values: list[object], data: st.DataObject) -> None:
    found = column(values, data.draw(st.integers(0, len(values))))
    assert isinstance(found, str) or found[1] == values

"""The map as files: a page without outside resources, and a parquet table with the same rows."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray

GRID = 65_535  # coordinates are whole numbers from 0 to this, so that the page is small

Columns = Mapping[str, Sequence[object]]
"""{column: N values}, as the file has them."""


def write_map(
    path: Path, table: Path, title: str, sentences: Sequence[str], plane: NDArray[np.float32], columns: Columns
) -> None:
    """Writes the page to `path`, and the sentences, their places [N, 2] and the columns to a parquet file `table`."""
    columns = {name: _numbers(values) for name, values in columns.items()}
    pq.write_table(_table(sentences, plane, columns), table)
    environment = Environment(
        loader=PackageLoader("isotune", "use/map"), undefined=StrictUndefined, autoescape=True, trim_blocks=True
    )
    page = environment.get_template("map.html.j2").render(
        title=title,
        count=len(sentences),
        style=(files(__package__) / "map.css").read_text("utf-8"),
        script=(files(__package__) / "map.js").read_text("utf-8"),
        data=_as_json(sentences, plane, columns),
    )
    path.write_text(page, "utf-8")


def _numbers(values: Sequence[object]) -> Sequence[object]:
    """The values of a column: texts become numbers if all of them are, as in a .csv file; a blank text is nothing."""
    known = [None if value == "" else value for value in values]
    texts = [value for value in known if isinstance(value, str)]
    if not texts or any(map(_is_code, texts)):
        return known
    for kind in (int, float):
        try:
            numbers = {text: kind(text) for text in texts}
        except ValueError:
            continue
        return [numbers.get(value, value) if isinstance(value, str) else value for value in known]
    return known


def _is_code(text: str) -> bool:
    """Whether a text would lose characters as a number: 00123, 2024_01, or more digits than the page keeps."""
    digits = text.strip().lstrip("+-")
    return "_" in text or (digits.isdecimal() and (len(digits) > 15 or (digits[0] == "0" and len(digits) > 1)))


def _table(sentences: Sequence[str], plane: NDArray[np.float32], columns: Columns) -> pa.Table:
    """The rows as a table; a second column of the same name gets an underscore after the name."""
    arrays = {"sentence": pa.array(sentences), "x": pa.array(plane[:, 0]), "y": pa.array(plane[:, 1])}
    for name, values in columns.items():
        while name in arrays:
            name += "_"
        arrays[name] = _array(values)
    return pa.table(arrays)


def _array(values: Sequence[object]) -> pa.Array:
    """A column; as text if its values have several types, or one that parquet does not have."""
    try:
        array = pa.array(values)
        pq.ParquetWriter(pa.BufferOutputStream(), pa.schema({"column": array.type})).close()
    except (pa.ArrowException, OverflowError):  # such as an empty object, and a number of more than 64 bits
        array = pa.array([None if value is None else str(value) for value in values])
    return array


def _as_json(sentences: Sequence[str], plane: NDArray[np.float32], columns: Columns) -> str:
    """What the script reads. No text can end the element that it stands in."""
    low, span = plane.min(0), max(float(np.ptp(plane, axis=0).max()), 1e-9)
    places = ((plane - low - np.ptp(plane, axis=0) / 2) / span + 0.5) * GRID  # both axes have one scale
    content = {
        "places": base64.b64encode(places.round().clip(0, GRID).astype("<u2").tobytes()).decode(),
        "sentences": list(sentences),
        "columns": {name: [_plain(value) for value in values] for name, values in columns.items()},
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _plain(value: object) -> Any:
    """A value as JSON has it: a number, a text or nothing."""
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else str(value)

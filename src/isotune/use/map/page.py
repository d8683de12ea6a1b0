"""The map as files: a page without outside resources, and a parquet table with the same rows."""

import base64
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from isotune.report.templates import template

GRID = 65_535  # coordinates are whole numbers from 0 to this, so that the page is small
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8c564b", "#9467bd")
# Of a range of numbers.
STEPS = ("#0072b2", "#2479a9", "#4781a0", "#6b8897", "#a48d6c", "#b47e48", "#c56e24", "#d55e00")
OTHER = "#8a8f96"


def write_map(
    path: Path, table: Path, title: str, sentences: Sequence[str], plane: NDArray[np.float32], columns: pa.Table
) -> None:
    """Writes the page to `path`, and the sentences, their places [N, 2] and the columns to a parquet file `table`."""
    pq.write_table(_table(sentences, plane, columns), table)
    page = template("map.html.j2", "use/map")
    path.write_text(page.render(title=title, count=len(sentences), data=_as_json(sentences, plane, columns)), "utf-8")


def _table(sentences: Sequence[str], plane: NDArray[np.float32], columns: pa.Table) -> pa.Table:
    """The rows as a table; a second column of the same name gets an underscore after the name."""
    arrays = {"sentence": pa.array(sentences), "x": pa.array(plane[:, 0]), "y": pa.array(plane[:, 1])}
    for name, values in zip(columns.column_names, columns.columns, strict=True):
        while name in arrays:
            name += "_"
        arrays[name] = values
    return pa.table(arrays)


def _as_json(sentences: Sequence[str], plane: NDArray[np.float32], columns: pa.Table) -> str:
    """What the script reads. No text can end the element that it stands in."""
    low, span = plane.min(0), max(float(np.ptp(plane, axis=0).max()), 1e-9)
    places = ((plane - low - np.ptp(plane, axis=0) / 2) / span + 0.5) * GRID  # both axes have one scale
    plain = {name: [_plain(value) for value in values] for name, values in columns.to_pydict().items()}
    nothing = _colouring("", [0] * len(sentences), {0: 0}, ["all"], PALETTE)
    by_column = (_colouring_by(name, values) for name, values in plain.items())
    content = {
        "places": _base64(places.round().clip(0, GRID).astype("<u2")),
        "sentences": list(sentences),
        "columns": plain,
        "colourings": [nothing, *filter(None, by_column)],
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _plain(value: object) -> Any:
    """A value as the script has it: a number, a text or nothing. It has no larger whole numbers than 2^53."""
    if value is None or value == "" or (isinstance(value, float) and not np.isfinite(value)):
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 2**53
    return value if is_number else str(value)


def _colouring_by(name: str, values: Sequence[Any]) -> dict[str, Any] | None:
    """The colours by a column: a colour for each of its frequent values, or for each of eight ranges of numbers.

    None if the column tells no two groups apart, or is a text that nearly every row has for itself, such as an address.
    """
    counts = Counter(values)
    numbers = [value for value in counts if isinstance(value, int | float)]
    if len(counts) > len(PALETTE) and len(numbers) == len(counts) - (None in counts):
        edges = np.linspace(min(numbers), max(numbers), len(STEPS) + 1)
        steps = np.searchsorted(edges[1:-1], np.array(numbers, float), "right").tolist()
        names = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
        return _colouring(name, values, dict(zip(numbers, steps, strict=True)), [*names, "none"], STEPS)
    if not 1 < len(counts) <= len(values) / 2:
        return None
    frequent = [value for value, _ in counts.most_common(len(PALETTE) - (len(counts) > len(PALETTE)))]
    names = ["none" if value is None else f"{value}" for value in frequent]
    others = f"{len(counts) - len(frequent)} others"
    return _colouring(name, values, {value: k for k, value in enumerate(frequent)}, [*names, others], PALETTE)


def _colouring(
    name: str, values: Sequence[Any], groups: Mapping[Any, int], names: Sequence[str], colours: Sequence[str]
) -> dict[str, Any]:
    """The group of each row, and of each group its name, rows and colour; the last group has all other values."""
    codes = np.array([groups.get(value, len(names) - 1) for value in values], np.uint8)
    sizes = np.bincount(codes, minlength=len(names)).tolist()
    shown = [*colours[: len(names) - 1], OTHER] if len(names) > 1 else colours[:1]
    return {"name": name, "codes": _base64(codes), "legend": list(zip(names, sizes, shown, strict=True))}


def _base64(array: NDArray[Any]) -> str:
    return base64.b64encode(array.tobytes()).decode()

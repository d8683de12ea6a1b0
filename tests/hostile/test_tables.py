"""Random tables, as strangers write them.

Each is read as it is, or refused in one line, and nothing is lost.

A table becomes a file; a folder of vectors and an index are made of it by the command line. What
they then hold is compared with what json, csv or pyarrow reads from the same file.
"""

import csv
import io
import json
import math
import os
from contextlib import suppress
from datetime import date
from itertools import repeat
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isotune.cli import main
from isotune.use.search import Index
from isotune.use.tables import rows_of

SEED = int(os.environ.get("ISOTUNE_SEED") or Random().randrange(2**32))
TABLES, PART = 40, 7  # PART: rows of a block, so that a small table has several
WORDS = [
    "lamp",
    "Zé",
    "犬",
    "a,b",
    'he said ""no""',
    "two\nlines",
    "tab\there",
    "cr\rhere",
    "'",
    "\u2028",
    "007",
]
WORDS += ["NaN"]
NAMES = ["a", "b c", "ชื่อ", "Text", "x_1", "select", "d-e", "é"]
TYPES = [
    pa.int8(),
    pa.uint64(),
    pa.float32(),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns"),
]
TYPES += [pa.duration("ms"), pa.time64("ns"), pa.decimal128(20, 3)]
KINDS = ["text", "whole", "number", "flag", "code", "list", "any"]
Row = dict[str, Any]


def value(draw: Random, kind: str, depth: int = 0) -> Any:
    """A value that is mostly of a kind; objects and lists of all depths are of the kind "any"."""
    if kind == "list":
        return [value(draw, draw.choice(KINDS[:3])) for _ in range(draw.randrange(3))]
    if kind == "any" and draw.random() < 0.7 - depth / 5:
        inner = [value(draw, "any", depth + 1) for _ in range(draw.randrange(3))]
        for _ in range(draw.choice([60, 130, 260, 400]) if draw.random() < 0.02 else 0):
            inner = [{"r": inner}]
        return (
            inner
            if draw.random() < 0.5
            else dict(zip(draw.sample(["a", "é", "k\0", ""], 2), inner, strict=False))
        )
    draws: dict[str, list[Any]] = {
        "text": [
            " ".join(draw.choices(WORDS, k=draw.choice([1, 2, 5]))),
            "-" * draw.choice([1, 150_000]),
        ],
        "whole": [
            draw.randrange(100),
            draw.randrange(-9, 9),
            draw.randrange(-(2**63), 2**63),
            2**53 + 1,
        ],
        "number": [draw.uniform(-1e9, 1e9), 5, -0.0, 1e300, 2.5e-9, math.nan, math.inf],
        "flag": [True, False],
        "code": ["007", "12", "-01.5", "0"],
    }
    return draw.choice(
        draws.get(kind) or [None, {}, *draws["text"], *draws["whole"], *draws["number"], True]
    )


def random_rows(draw: Random) -> list[Row]:
    """Rows whose columns have mostly one kind of value, and now and then another.

    A column's kind may begin at a later row.
    """
    columns = [
        (name, draw.choice(KINDS), draw.choice([0, PART + 1]))
        for name in draw.sample(NAMES, draw.randrange(6))
    ]
    surprise = draw.choice([0, 0, 0, 0, 0, 0.1])
    rows = []
    for place in range(draw.choice([1, 3, PART, 3 * PART + 2])):
        row: Row = {
            "id": f"r{place}",
            "text": f"{draw.choice(['lamp', 'a chair', 'Zé 犬'])} {place}",
        }
        for name, kind, first in columns:
            if place >= first and draw.random() < 0.8:
                row[name] = value(draw, draw.choice(KINDS) if draw.random() < surprise else kind)
            elif draw.random() < 0.5:
                row[name] = None
        rows.append(row)
    return rows


def arrow_table(draw: Random) -> pa.Table:
    """A table of types that only parquet has: plain, and in lists, objects and maps."""
    rows = range(draw.choice([1, 9, 20]))
    table: dict[str, Any] = {"id": [f"r{k}" for k in rows], "text": [f"a lamp {k}" for k in rows]}
    for name in draw.sample(NAMES[:3], draw.randrange(1, 4)):
        type_ = draw.choice(TYPES)
        values = [draw.choice([None, k, k * 1000, k * 1000 + draw.randrange(2)]) for k in rows]
        wrapped = {
            pa.null(): [None for _ in rows],
            type_: [
                value if type_ != pa.int8() or value is None else value % 100 for value in values
            ],
            pa.list_(pa.list_(pa.date32())): [[[value], []] for value in values],
            pa.struct({"d": pa.date32(), "n": pa.null()}): [
                {"d": value, "n": None} for value in values
            ],
            pa.map_(pa.string(), pa.int64()): [[("k", value)] for value in values],
        }
        chosen = draw.choice([type_, type_, type_, *wrapped])
        table[name] = pa.array(wrapped[chosen], chosen)
    return pa.table(table)


def write(draw: Random, path: Path) -> list[Row]:
    """Writes a random table to a file.

    Returns what the format's own library reads of it, with isotune's names.
    """
    if path.suffix == ".parquet":
        pq.write_table(arrow_table(draw), path)
        return pq.read_table(path).to_pylist()
    rows, end, mark = (
        random_rows(draw),
        draw.choice(["\n", "\r\n", "\r"]),
        draw.choice([b"", b"\xef\xbb\xbf"]),
    )
    if path.suffix == ".jsonl":
        lines = [json.dumps(row, ensure_ascii=draw.random() < 0.5) for row in rows]
        path.write_bytes(
            mark + "".join(line + draw.choice([end, end * 2]) for line in lines).encode()
        )
        return [json.loads(line) for line in lines]
    names = list(dict.fromkeys(name for row in rows for name in row))
    values = [[row.get(name) for name in names] for row in rows]
    cells = [
        ["" if x is None else x if isinstance(x, str) else json.dumps(x) for x in line]
        for line in values
    ]
    header = [
        *names[:-1],
        "" if len(names) > 2 and draw.random() < 0.2 else names[-1],
    ]  # "" as pandas' index
    file = io.StringIO(newline="")
    if path.suffix == ".tsv":
        cells = [[" ".join(cell.split()) for cell in line] for line in cells]
        file.write(end.join(["\t".join(line) for line in [header, *cells]] + [""]))
    else:
        sign = draw.choice(",;")
        file.write(f"sep={sign}{end}" if sign == ";" else "")
        csv.writer(file, delimiter=sign, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(
            [header, *cells]
        )
    path.write_bytes(mark + file.getvalue().encode())
    header = [name or f"Unnamed: {place}" for place, name in enumerate(header)]
    return [dict(zip(header, line, strict=True)) for line in cells]


def same(value: Any, kept: Any, inside: bool = False) -> bool:
    """Whether a value of a file is kept.

    NaN is kept as null, cells as numbers or booleans, and what JSON lacks as text.
    """
    match value, kept:
        case (float(), None):
            return math.isnan(value) or (inside and math.isinf(value))
        case (str(), None):
            return not value.strip()
        case (str(), int() | float()):  # only what JSON writes so: 007 is no number there
            with suppress(ValueError):
                found = json.loads(value.lower())
                return found == kept and isinstance(found, bool) == isinstance(kept, bool)
            return False
        case (dict(), dict()):
            return value.keys() == kept.keys() and all(
                same(value[key], kept[key], True) for key in value
            )
        case (list() | tuple(), list() | tuple()):
            return len(value) == len(kept) and all(map(same, value, kept, repeat(True)))
        case (date(), str()):
            return value.isoformat() == kept
    return value is kept or (type(value) is not bool and value == kept)


@pytest.mark.slow
def test_random_tables_are_kept_or_refused_in_a_line(
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("isotune.use.tables.ROWS", PART)
    monkeypatch.chdir(tmp_path)
    print(f"ISOTUNE_SEED={SEED}")
    codes: list[int] = []
    wrong: list[str] = []

    def call(*words: object) -> bool:
        """Whether a command did its work; what it says otherwise is one line."""
        codes.append(main([str(word) for word in words]))
        lines = [
            line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")
        ]
        if codes[-1] and (codes[-1] != 2 or len(lines) != 1 or ": column " not in lines[0]):
            wrong.append(f"{words}: {codes[-1]}, {lines}")
        return codes[-1] == 0

    def compare(what: object, expected: list[Row], kept: list[Row]) -> None:
        for row, found in zip(expected, kept, strict=True):
            lost = [name for name in row | found if not same(row.get(name), found.get(name))]
            wrong.extend(
                f"{what}: {name}: {row.get(name)!r:.200} became {found.get(name)!r:.200}"
                for name in lost
            )

    for number in range(TABLES):
        draw = Random(f"{SEED}-{number}")
        index, stored = Path(f"index{number}"), dict[str, Row]()
        for part in range(2):
            path = Path(f"t{number}-{part}{draw.choice(['.jsonl', '.csv', '.tsv', '.parquet'])}")
            expected = write(draw, path)
            if call("encode", tiny_model, path, "--out", path.stem):
                found = pq.read_table(f"{path.stem}/{path.stem}.parquet").drop_columns("vector")
                compare(
                    path,
                    expected,
                    found.to_pylist() if path.suffix == ".parquet" else rows_of(found),
                )
            if call("index", tiny_model, path, "--out", index):
                stored |= {row["id"]: row for row in expected}
            rows = {
                row.pop("id"): row
                for row in Index.open(index).store.first(10_000)
                if row.pop("vector")
            }
            compare(
                index, list(stored.values()), [{"id": name, **rows.pop(name)} for name in stored]
            )
            wrong += [f"{index}: {name} came from nowhere" for name in rows]
    with capsys.disabled():
        print(
            f"\ntables: {2 * TABLES} random tables (seed {SEED}), {codes.count(0)} commands kept "
            f"all, {codes.count(2)} refused in a line, {len(wrong)} wrong or lost"
        )
    assert wrong == []

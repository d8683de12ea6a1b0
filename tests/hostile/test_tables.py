"""Random tables, as strangers write them: each is read as it is, or refused in one line, and nothing is lost.

A table becomes a file; a folder of vectors and an index are made of it by the command line. What they then hold is
compared with what json, csv or pyarrow reads from the same file.
"""

import csv
import io
import json
import math
import os
import random
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isotune.cli import main
from isotune.data.tables import rows_of
from isotune.use.search import Index

SEED = int(os.environ.get("ISOTUNE_SEED") or random.randrange(2**32))
TABLES = 40
PART = 7  # rows of a block, so that a small table has several
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
    "NaN",
    "-",
]
Row = dict[str, Any]


class Tables:
    """Draws tables whose columns have mostly one kind of value, and now and then another."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)

    def text(self) -> str:
        size = self.random.choice([1, 1, 1, 2, 5, 30_000 if self.random.random() < 0.02 else 3])
        return " ".join(self.random.choices(WORDS, k=size))

    def number(self) -> float:
        draw = self.random
        return draw.choice([draw.random(), draw.uniform(-1e9, 1e9), 5.0, -0.0, 1e300, 2.5e-9])

    def whole(self) -> int:
        draw = self.random
        return draw.choice([draw.randrange(-9, 9), draw.randrange(2**31), draw.randrange(-(2**63), 2**63), 2**53 + 1])

    def nested(self, depth: int = 0) -> Any:
        draw = self.random
        if depth > 3 or draw.random() < 0.3:
            return draw.choice([None, self.text(), self.number(), self.whole(), True, float("nan"), [], {}])
        if draw.random() < 0.02:
            return deep(draw.choice([60, 130, 260, 400]))
        if draw.random() < 0.5:
            return [self.nested(depth + 1) for _ in range(draw.randrange(3))]
        return {draw.choice(["a", "b", "é", "k\0", ""]): self.nested(depth + 1) for _ in range(draw.randrange(3))}

    def value(self, kind: str) -> Any:
        draw = self.random
        match kind:
            case "text":
                return self.text()
            case "whole":
                return self.whole() if draw.random() < 0.3 else draw.randrange(100)
            case "number":
                return draw.choice([self.number(), self.number(), draw.randrange(9), float("nan"), float("inf")])
            case "flag":
                return draw.random() < 0.5
            case "list":
                inner = draw.choice(["text", "whole", "number"])
                return [self.value(inner) for _ in range(draw.randrange(3))]
            case "object":
                return {"a": self.nested(1), **({"b": self.nested(1)} if draw.random() < 0.3 else {})}
        return self.nested()

    def rows(self) -> list[Row]:
        draw = self.random
        names = draw.sample(["a", "b c", "ชื่อ", "Text", "x_1", "select", "d-e", "é"], draw.randrange(6))
        kinds = {name: draw.choice(["text", "whole", "number", "flag", "list", "object", "any"]) for name in names}
        first = {name: draw.choice([0, 0, 0, PART + 1]) for name in names}  # the row from which there are values
        surprise = draw.random() < 0.15
        rows = []
        for place in range(draw.choice([1, 3, PART, 3 * PART + 2])):
            row: Row = {"id": f"r{place}", "text": f"{draw.choice(['lamp', 'a chair', 'Zé 犬'])} {place}"}
            for name, kind in kinds.items():
                kind = draw.choice(["text", "number", "any"]) if surprise and draw.random() < 0.1 else kind
                value = None if place < first[name] or draw.random() < 0.2 else self.value(kind)
                if value is not None or draw.random() < 0.5:
                    row[name] = value
            rows.append(row)
        return rows


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"r": value}
    return value


def arrow_table(draw: random.Random) -> pa.Table:
    """A table of types that only parquet has."""
    count = draw.choice([1, 9, 20])

    def column(type_: pa.DataType, value: Any) -> pa.Array:
        return pa.array([None if draw.random() < 0.2 else value(k) for k in range(count)], type_)

    moment = datetime(2024, 1, 1, 5, 6, 7, 8)
    kinds: dict[str, tuple[pa.DataType, Any]] = {
        "i8": (pa.int8(), lambda k: k),
        "u64": (pa.uint64(), lambda k: k + draw.choice([0, 0, 0, 2**63])),
        "f16": (pa.float16(), lambda k: k / 4),
        "f32": (pa.float32(), lambda k: 0.1 * k),
        "day": (pa.date32(), lambda k: date(2020, 1, k + 1)),
        "us": (pa.timestamp("us", "UTC"), lambda k: moment.replace(tzinfo=UTC)),
        "ns": (pa.timestamp("ns"), lambda k: 10**18 + draw.choice([0, 0, 1000, 1])),
        "length": (pa.duration("ms"), lambda k: timedelta(seconds=k)),
        "hour": (pa.time64("ns"), lambda k: draw.choice([0, 5000, 5001])),
        "money": (pa.decimal128(20, 3), lambda k: Decimal(k) / 8),
        "raw": (pa.binary(), lambda k: bytes([k, 255])),
        "kind": (pa.dictionary(pa.int8(), pa.string()), lambda k: "ab"[k % 2]),
        "map": (pa.map_(pa.string(), pa.int64()), lambda k: [("k", k)]),
        "object": (pa.struct({"d": pa.date32(), "n": pa.null()}), lambda k: {"d": date(2020, 1, 1), "n": None}),
        "none": (pa.null(), lambda k: None),
        "lists": (pa.list_(pa.list_(pa.int32())), lambda k: [[k], []]),
        "view": (pa.large_string(), lambda k: "x" * k),
    }
    columns = {name: column(*kinds[name]) for name in draw.sample(sorted(kinds), draw.randrange(1, 5))}
    return pa.table({"id": [f"r{k}" for k in range(count)], "text": [f"a lamp {k}" for k in range(count)], **columns})


def write(draw: random.Random, rows: list[Row], suffix: str) -> bytes:
    """A table as a file of bytes; rows that a format can't hold are texts there."""
    if suffix in (".jsonl", ".ndjson"):
        text = "".join(
            json.dumps(row, ensure_ascii=draw.random() < 0.5) + draw.choice(["\n", "\r\n", "\n\n"]) for row in rows
        )
        return draw.choice([b"", b"\xef\xbb\xbf"]) + text.encode()
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [
        [
            "" if row.get(name) is None else row[name] if isinstance(row[name], str) else json.dumps(row[name])
            for name in names
        ]
        for row in rows
    ]
    if suffix == ".tsv":
        lines = ["\t".join(" ".join(cell.split()) for cell in line) for line in [names, *cells]]
        return draw.choice(["\n", "\r\n", "\r"]).join([*lines, ""]).encode()
    file = io.StringIO(newline="")
    end, sign = draw.choice(["\n", "\r\n", "\r"]), draw.choice([",", ",", ";"])
    if draw.random() < 0.2:
        names = ["" if name == names[-1] and name not in ("id", "text") else name for name in names]  # as pandas' index
    quoting = csv.QUOTE_MINIMAL if end == "\r\n" else csv.QUOTE_ALL  # csv quotes only those line ends that it writes
    csv.writer(file, delimiter=sign, lineterminator=end, quoting=quoting).writerows([names, *cells])
    first = f"sep={sign}{end}" if sign == ";" or draw.random() < 0.1 else ""
    return draw.choice([b"", b"\xef\xbb\xbf"]) + (first + file.getvalue() + draw.choice(["", end])).encode()


def read(path: Path) -> list[Row]:
    """What the format's own library reads, with the names that isotune gives."""
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    content = path.read_bytes().decode("utf-8-sig")
    if path.suffix in (".jsonl", ".ndjson"):
        return [json.loads(line) for line in content.split("\n") if line.strip()]
    if path.suffix == ".tsv":
        header, *lines = [line.split("\t") for line in content.splitlines() if line]
    else:
        sign = content[4] if content.startswith("sep=") else ","
        body = io.StringIO(content[5:].lstrip("\r\n") if content.startswith("sep=") else content, newline="")
        header, *lines = [line for line in csv.reader(body, delimiter=sign) if line]
    header = [name or f"Unnamed: {place}" for place, name in enumerate(header)]
    return [dict(zip(header, line, strict=True)) for line in lines]


def same(value: Any, kept: Any, inside: bool = False) -> bool:
    """Whether a value of a file is kept: NaN as null, cells as numbers or booleans, and what JSON has not as text."""
    match value, kept:
        case (None, _):
            return kept is None
        case (float(), None):
            return math.isnan(value) or (inside and math.isinf(value))
        case (str(), None):
            return not value.strip()
        case (str(), bool()):
            return value.strip().lower() == str(kept).lower()
        case (str(), int() | float()):
            return type(kept)(value) == kept and not value.strip().lstrip("+-").startswith("00")
        case (dict(), dict()):
            return value.keys() == kept.keys() and all(same(value[key], kept[key], True) for key in value)
        case (list() | tuple(), list() | tuple()):
            return len(value) == len(kept) and all(same(*pair, True) for pair in zip(value, kept, strict=True))
        case (date() | time(), str()):
            return value.isoformat() == kept
    return (type(value) is not bool and value == kept) or value is kept


def differs(expected: list[Row], kept: list[Row]) -> str:
    """The first difference of two tables; empty without any."""
    if len(expected) != len(kept):
        return f"{len(kept)} rows, not {len(expected)}"
    for number, (row, found) in enumerate(zip(expected, kept, strict=True)):
        for name in {**row, **found}:
            if not same(row.get(name), found.get(name)):
                return f"row {number}, {name!r}: {row.get(name)!r:.200} became {found.get(name)!r:.200}"
    return ""


def in_index(folder: Path) -> list[Row]:
    rows = Index.open(folder).store.first(10_000)
    return sorted(({name: row[name] for name in row if name != "vector"} for row in rows), key=lambda row: row["id"])


@pytest.mark.slow
def test_random_tables_are_kept_or_refused_in_a_line(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("isotune.use.bulk.vector_file.PART", PART)
    monkeypatch.setattr("isotune.use.search.index.PART", PART)
    monkeypatch.chdir(tmp_path)
    print(f"ISOTUNE_SEED={SEED}")
    kept = refused = 0
    wrong: list[str] = []

    def call(*words: object) -> bool:
        """Whether a command did its work; what it says otherwise is one line."""
        nonlocal kept, refused
        code, said = main([str(word) for word in words]), capsys.readouterr().err.splitlines()
        kept, refused = kept + (code == 0), refused + (code == 2)
        lines = [line for line in said if line.startswith("error: ")]
        if code and (code != 2 or len(lines) != 1 or ": column " not in lines[0]):
            wrong.append(f"{words}: {code}, {said}")
        return code == 0

    for number in range(TABLES):
        tables = Tables(f"{SEED}-{number}")
        draw = tables.random
        index, before = Path(f"index{number}"), []
        for part in range(2):
            suffix = draw.choice([".jsonl", ".ndjson", ".csv", ".tsv", ".parquet"])
            path = Path(f"t{number}-{part}{suffix}")
            if suffix == ".parquet":
                pq.write_table(arrow_table(draw), path)
            else:
                path.write_bytes(write(draw, tables.rows(), suffix))
            expected = read(path)
            folder = Path(f"vectors{number}-{part}")
            try:
                if call("encode", tiny_model, path, "--out", folder):
                    found = pq.read_table(folder / path.with_suffix(".parquet").name).drop_columns("vector")
                    rows = found.to_pylist() if suffix == ".parquet" else rows_of(found)
                    wrong += [f"{path}: {what}" for what in [differs(expected, rows)] if what]
                if call("index", tiny_model, path, "--out", index):
                    merged = {row["id"]: row for row in [*before, *expected]}
                    expected = [merged[name] for name in sorted(merged)]
                else:
                    expected = before
                before = in_index(index) if index.exists() else []
                wrong += [f"{index} after {path}: {what}" for what in [differs(expected, before)] if what]
            except Exception as error:
                wrong.append(f"{path}: {type(error).__name__}: {error}")
    with capsys.disabled():
        counts = f"{kept} commands kept all, {refused} refused in a line, {len(wrong)} wrong, lost or with a traceback"
        print(f"\ntables: {2 * TABLES} random tables (seed {SEED}), {counts}")
    assert wrong == []

"""One file of text to one file of vectors.

Every row keeps its columns and their types, in order, in blocks of any size.
"""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.use.bulk.vector_file import Encoded, encode_rows, write_npy


@pytest.fixture
def encoder(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Encoder:
    """An encoder of parts of 7 sentences, which don't fall together with the blocks of 5 rows."""
    monkeypatch.setattr("isotune.encoder.stream.PART", 7)
    monkeypatch.setattr("isotune.use.bulk.vector_file.PART", 5)
    monkeypatch.setattr("isotune.use.tables.ROWS", 5)
    return Encoder.load(tiny_model)


def encoded(encoder: Encoder, source: Path, **columns: str) -> Path:
    target = source.with_name(f"vectors-of-{source.name}")
    encode_rows(encoder, source, target, columns, normalize=False)
    return target


def vectors_in(table: pa.Table) -> np.ndarray:
    return np.array(table["vector"].to_pylist(), np.float32)


@pytest.fixture
def table(sentences: list[str]) -> pa.Table:
    """Rows with columns of many types; every fourth text is blank."""
    texts = [
        None if i % 8 == 3 else "  " if i % 8 == 7 else f" {text}\n"
        for i, text in enumerate(sentences)
    ]
    ids = range(len(sentences))
    return pa.table(
        {
            "id": pa.array(ids, pa.uint16()),
            "body": pa.array(texts, pa.large_string()),
            "time": pa.array(
                [datetime.fromtimestamp(i, UTC) for i in ids], pa.timestamp("us", "UTC")
            ),
            "tags": pa.array([["a"] * (i % 3) for i in ids]),
            "kind": pa.array([f"kind {i % 2}" for i in ids]).dictionary_encode(),
            "half": pa.array([i / 2 if i % 2 else None for i in ids], pa.float32()),
        }
    )


def test_a_parquet_file_keeps_its_columns_and_their_types(
    encoder: Encoder, table: pa.Table, tmp_path: Path
) -> None:
    source = tmp_path / "part.parquet"
    pq.write_table(table, source, row_group_size=9)
    result = pq.read_table(encoded(encoder, source, sentence="body"))
    kept = table.filter([i % 4 != 3 for i in range(len(table))])
    assert result.drop_columns("vector").equals(kept)
    expected = encoder.encode([text.strip() for text in kept["body"].to_pylist()])
    np.testing.assert_allclose(vectors_in(result), expected, atol=1e-5)


def test_text_formats_keep_their_columns(
    encoder: Encoder, sentences: list[str], tmp_path: Path
) -> None:
    expected = encoder.encode(sentences)
    rows = [
        {"id": i, "text": text, "score": i / 2 if i % 2 else None}
        for i, text in enumerate(sentences)
    ]
    files = {
        "a.txt": ("\n\n".join(sentences) + "\n", {"sentence": sentences}),
        "a.csv": (
            "id,text\n" + "".join(f"{row['id']},{row['text']}\n" for row in rows),
            {"id": [row["id"] for row in rows], "text": sentences},
        ),
        "a.jsonl": (
            "".join(json.dumps(row) + "\n" for row in rows),
            {key: [row[key] for row in rows] for key in ("id", "text", "score")},
        ),
    }
    for name, (text, columns) in files.items():
        path = tmp_path / f"{name}.gz"
        path.write_bytes(gzip.compress(text.encode()))
        result = pq.read_table(encoded(encoder, path))
        np.testing.assert_allclose(vectors_in(result), expected, atol=1e-5)
        assert result.drop_columns("vector").to_pydict() == columns


def test_the_texts_that_are_cut_are_counted(encoder: Encoder, tmp_path: Path) -> None:
    encoder.max_length = 5
    source = tmp_path / "a.txt"
    source.write_text("a man\na man and a dog\n" * 9)
    target = tmp_path / "a.parquet"
    assert encode_rows(encoder, source, target, {}, normalize=False) == Encoded(rows=18, cut=9)
    assert encode_rows(encoder, source, target, {}, normalize=False) == Encoded(rows=18, cut=9)
    encoder.max_length = 32
    assert encode_rows(encoder, source, target, {}, normalize=False) == Encoded(rows=18, cut=0)


def test_a_parquet_file_without_rows_gives_one_without_rows(
    encoder: Encoder, tmp_path: Path
) -> None:
    source = tmp_path / "empty.parquet"
    pq.write_table(pa.schema({"id": pa.int32(), "text": pa.string()}).empty_table(), source)
    result = pq.read_table(encoded(encoder, source))
    assert (result.column_names, result.num_rows) == (["id", "text", "vector"], 0)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"text": "a", "vector": 1}], "it has a column 'vector' already"),
        (
            [{"sentence1": "a", "sentence2": "b"}],
            r"several texts in a row \(sentence1, sentence2\)",
        ),
        (
            [{"text": "a", "x": 1}, {"text": "a", "x": "b"}],
            "part.jsonl:2: column 'x': 'b' can't be kept: the column has",
        ),
        ([], "empty"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_rows_that_are_refused(
    encoder: Encoder, rows: list[object], message: str, tmp_path: Path
) -> None:
    source = tmp_path / "part.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match=message):
        encoded(encoder, source)


@pytest.mark.parametrize("blocks", [[], [3], [9, 1], [1000] * 12], ids=str)
def test_an_npy_file_written_in_blocks_equals_one_written_at_once(
    blocks: list[int], tmp_path: Path
) -> None:
    vectors = np.random.default_rng(0).normal(size=(sum(blocks), 5)).astype(np.float32)
    path, whole = tmp_path / "v.npy", tmp_path / "w.npy"
    np.save(whole, vectors)
    parts = np.split(vectors, np.cumsum(blocks)[:-1]) if blocks else []
    with path.open("wb") as file:
        rows = write_npy(file, 5, parts)
    assert path.read_bytes() == whole.read_bytes()
    assert rows == len(vectors)
    np.testing.assert_array_equal(np.load(path, mmap_mode="r" if blocks else None), vectors)

"""Spark and Daft add vectors as docs/scaling.md says.

Daft needs an older pyarrow: install both beside isotune.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from isotune import AddVectors, Encoder

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def expected(tiny_model: Path, sentences: list[str]) -> np.ndarray:
    return Encoder.load(tiny_model).encode(sentences)


def test_spark(
    tiny_model: Path, sentences: list[str], expected: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark_sql = pytest.importorskip("pyspark.sql")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    spark = spark_sql.SparkSession.builder.master("local[2]").getOrCreate()
    add = AddVectors(str(tiny_model))

    def vectors(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from add(pa.Table.from_batches([batch])).to_batches()

    frame = spark.createDataFrame([(text,) for text in sentences], "text string")
    rows = frame.mapInArrow(vectors, "text string, vector array<float>").collect()
    spark.stop()
    assert [row["text"] for row in rows] == sentences
    np.testing.assert_allclose(np.array([row["vector"] for row in rows]), expected, atol=1e-6)


def test_daft(tiny_model: Path, sentences: list[str], expected: np.ndarray) -> None:
    daft = pytest.importorskip("daft")
    add = AddVectors(str(tiny_model))

    @daft.func.batch(return_dtype=daft.DataType.embedding(daft.DataType.float32(), 32))
    def vectors(text: daft.Series) -> pa.Array:
        return add(pa.table({"text": text.to_arrow().cast(pa.string())}))["vector"].combine_chunks()

    frame = daft.from_pydict({"text": sentences})
    rows = frame.with_column("vector", vectors(frame["text"])).to_pydict()
    np.testing.assert_allclose(np.array(rows["vector"]), expected, atol=1e-6)

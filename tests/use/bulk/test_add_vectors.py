"""One class adds vectors to Arrow tables; every engine calls it."""

import pickle
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pytest

from isotune import AddVectors, Encoder, InputError


def test_tables_get_the_vectors_of_encode(tiny_model: Path, sentences: list[str]) -> None:
    add = pickle.loads(pickle.dumps(AddVectors(str(tiny_model), normalize=True)))
    table = add(pa.table({"text": [None, *sentences], "n": range(61)}))
    assert table.column_names == ["text", "n", "vector"]
    assert table["vector"].type == pa.list_(pa.float32(), 32)
    first, *rest = table["vector"].to_pylist()
    assert first is None
    expected = Encoder.load(tiny_model).encode(sentences, normalize=True)
    np.testing.assert_allclose(np.array(rest, np.float32), expected, atol=1e-6)


def test_the_encoder_stays_in_its_process(tiny_model: Path) -> None:
    add = AddVectors(str(tiny_model), "body", "v")
    add(pa.table({"body": ["a dog"]}))
    assert len(pickle.dumps(add)) < 500
    assert (
        pickle.loads(pickle.dumps(add))(
            pa.table({"body": []}, pa.schema({"body": pa.string()}))
        ).num_rows
        == 0
    )
    for table in ({"text": ["a dog"]}, {"body": ["a dog"], "v": [1]}):
        with pytest.raises(InputError, match="the table has the columns"):
            add(pa.table(table))


def test_datasets_map(tiny_model: Path, sentences: list[str]) -> None:
    rows = datasets.Dataset.from_dict({"text": sentences}).with_format("arrow")
    mapped = rows.map(AddVectors(str(tiny_model)), batched=True, batch_size=25).with_format("numpy")
    np.testing.assert_allclose(
        mapped["vector"][:], Encoder.load(tiny_model).encode(sentences), atol=1e-6
    )

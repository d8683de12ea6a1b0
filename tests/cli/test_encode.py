"""`isotune encode`: vectors, complete files, and errors."""

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from isotune.encoder.encoder import Encoder
from isotune.use.quantization import Ranges
from tests.cli.conftest import Call
from tests.cli.test_train import files_no_larger_than

Refused = Callable[..., str]


def here() -> set[str]:
    return {path.name for path in Path().iterdir()}


def test_vectors_in_a_numpy_file(
    isotune: Call, tiny_model: Path, text: Path, sentences: list[str]
) -> None:
    code, out, err = isotune("encode", tiny_model, text)
    assert (code, err) == (0, "")
    assert re.fullmatch(r"vectors.npy: 60 vectors of 32 features, [\d,]+ a second\n", out)
    assert here() == {"text.txt", "vectors.npy"}
    np.testing.assert_array_equal(
        np.load("vectors.npy"), Encoder.load(tiny_model).encode(sentences)
    )


def test_vectors_beside_their_sentences(
    isotune: Call, tiny_model: Path, text: Path, sentences: list[str]
) -> None:
    Path("2.txt").write_text("a cat\n\nthe ball\n")
    assert (
        isotune("encode", tiny_model, text, "2.txt", "--normalize", "--out", "v.parquet").code == 0
    )
    table = pq.read_table("v.parquet")
    assert table["sentence"].to_pylist() == [*sentences, "a cat", "the ball"]
    vectors = np.array(table["vector"].to_pylist())
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)


def test_vectors_beside_all_columns_of_a_file(isotune: Call, tiny_model: Path) -> None:
    Path("t.csv").write_text("id,body,stars\n7,a dog,1\n8,,2\n9,a cat,3\n")
    assert (
        isotune(
            "encode", tiny_model, "t.csv", "--columns", "sentence=body", "--out", "v.parquet"
        ).code
        == 0
    )
    *columns, vectors = pq.read_table("v.parquet").to_pydict().items()
    assert columns == [("id", [7, 9]), ("body", ["a dog", "a cat"]), ("stars", [1, 3])]
    expected = Encoder.load(tiny_model).encode(["a dog", "a cat"])
    np.testing.assert_allclose(vectors[1], expected, rtol=1e-5, atol=1e-6)


def test_a_column_and_standard_input(
    isotune: Call, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("t.csv").write_text("id,body\n1,a dog\n2,a cat\n")
    assert isotune("encode", tiny_model, "t.csv", "--columns", "sentence=body").code == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a dog\n\na cat\n")))
    assert isotune("encode", tiny_model, "-", "--out", "s.npy").code == 0
    np.testing.assert_array_equal(np.load("vectors.npy"), np.load("s.npy"))


def test_a_folder_of_vectors(isotune: Call, refused: Refused, tiny_model: Path, text: Path) -> None:
    Path("parts").mkdir()
    for number in range(3):
        Path(f"parts/{number}.csv").write_text(
            f"id,sentence\n{number},a dog\n{number + 10},a cat\n"
        )
    command = ["encode", tiny_model, "parts/*.csv", "--out", "vectors/", "--normalize"]
    code, out, err = isotune(*command)
    assert (code, err) == (0, "")
    assert out == "vectors: 3 files; this command made 3, with 6 vectors\n"
    assert pq.read_table("vectors")["id"].to_pylist() == [0, 10, 1, 11, 2, 12]
    assert isotune(*command).out.endswith("this command made 0, with 0 vectors\n")
    for words, message in [
        (
            [text, "--engine", "ray"],
            "--engine is for a folder of vectors; --out vectors.npy is a file",
        ),
        (
            [text, "--out", "v", "--engine", "ray", "--shard", "1/2"],
            "--shard can't be given with --engine ray",
        ),
        ([text, "--out", "v", "--address", "auto"], "--address is for --engine ray; add that"),
        (["--out", "v"], "FILE is missing. See isotune encode --help"),
    ]:
        assert message in refused("encode", tiny_model, *words)
    assert here() == {"text.txt", "parts", "vectors"}


def test_input_that_is_refused(refused: Refused, tiny_model: Path, text: Path) -> None:
    Path("old.npy").write_text("old")
    before = here()
    for words, message in [
        (
            [text, "--out", "v.txt"],
            "--out v.txt: vectors are written as .npy or .parquet, or into a folder",
        ),
        ([text, "--out", "old.npy"], "old.npy: it exists already; give another name"),
        ([text, "--out", "old.npy/v.npy"], "old.npy/v.npy: it can't be written"),
    ]:
        assert message in refused("encode", tiny_model, *words)
    assert "there is no such folder" in refused("encode", "no/model", text)
    assert here() == before
    assert Path("old.npy").read_text() == "old"


@pytest.mark.parametrize("name", ["v.npy", "v.parquet"])
def test_a_full_disk(refused: Refused, tiny_model: Path, text: Path, name: str) -> None:
    with files_no_larger_than(1000):
        assert f"{name}: it can't be written" in refused("encode", tiny_model, text, "--out", name)
    assert here() == {"text.txt"}


@pytest.mark.parametrize(
    "words",
    [
        "encode MODEL text.txt",
        "encode MODEL text.txt --out v.parquet",
        "encode MODEL text.txt text.txt --out vectors/",
        "index MODEL text.txt --out index",
        "evaluate MODEL --tasks stsb-open:dev",
        "label text.txt --encoders MODEL",
    ],
)
def test_a_model_whose_vectors_overflow_is_refused(
    words: str, refused: Refused, tiny_model: Path, text: Path
) -> None:
    encoder = Encoder.load(tiny_model)
    *_, last = (
        module for module in encoder.backbone.modules() if isinstance(module, torch.nn.LayerNorm)
    )
    last.weight.data *= 3e38
    encoder.save(Path("model"))
    assert "its vector has NaN or infinity" in refused(*words.replace("MODEL", "model").split())
    assert not [
        path
        for path in Path().rglob("*.*")
        if path.suffix in (".npy", ".parquet", ".csv", ".html", ".tsv")
    ]


def test_the_first_features_alone(
    isotune: Call, refused: Refused, tiny_model: Path, text: Path, sentences: list[str]
) -> None:
    assert (
        ": 60 vectors of 8 features" in isotune("encode", tiny_model, text, "--dimensions", 8).out
    )
    whole = Encoder.load(tiny_model).encode(sentences)
    np.testing.assert_array_equal(np.load("vectors.npy"), whole[:, :8])
    words = ["encode", tiny_model, text, "--out", "folder"]
    assert isotune(*words, "--dimensions", 8).code == 0
    assert "folder: its vectors have 8 features, not 32" in refused(*words)
    (row, *_) = pq.read_table("folder/text.parquet")["vector"].to_pylist()
    np.testing.assert_array_equal(row, np.load("vectors.npy")[0])


def test_vectors_as_bytes_with_the_ranges_of_other_texts(
    isotune: Call, refused: Refused, tiny_model: Path, text: Path, sentences: list[str]
) -> None:
    words = ["encode", tiny_model, text, "--vectors", "int8"]
    out = isotune(*words).out
    assert "vectors.ranges.json: the ranges of 60 texts; give it by --ranges" in out
    ranges = Ranges.read(Path("vectors.ranges.json"))
    units = Encoder.load(tiny_model).encode(sentences, normalize=True)
    np.testing.assert_array_equal(np.load("vectors.npy"), ranges.bytes_of(units))
    assert "vectors.ranges.json: it exists already" in refused(*words[:2], text, *words[3:])
    Path("2.txt").write_text("a cat\n")
    given = ["--ranges", "vectors.ranges.json"]
    isotune("encode", tiny_model, "2.txt", *words[3:], *given, "--out", "2.parquet")
    column = pq.read_table("2.parquet")["vector"]
    unit = Encoder.load(tiny_model).encode(["a cat"], normalize=True)
    assert column.to_pylist() == ranges.bytes_of(unit).tolist()
    assert column.type.value_type == pa.int8()
    given += ["--out", "3.npy"]
    assert "of another encoder" in refused("encode", "bert-tiny", "2.txt", *words[3:], *given)
    assert "ranges are for int8" in refused("encode", tiny_model, "2.txt", *given)


def test_bytes_in_a_folder_need_ranges(
    isotune: Call, refused: Refused, tiny_model: Path, text: Path
) -> None:
    words = ["encode", tiny_model, text, "--vectors", "int8", "--out", "folder"]
    assert "int8 vectors in a folder need ranges" in refused(*words)
    isotune("encode", tiny_model, text, "--vectors", "int8")
    assert isotune(*words, "--ranges", "vectors.ranges.json").code == 0
    rows = pq.read_table("folder/text.parquet")["vector"].to_pylist()
    np.testing.assert_array_equal(rows, np.load("vectors.npy"))
    Path("2.txt").write_text("a cat\nthe ball\n")
    isotune("encode", tiny_model, "2.txt", "--vectors", "int8", "--out", "2.npy")
    line = refused(*words, "--ranges", "2.ranges.json")
    assert "folder: its vectors were made with other ranges; give _ranges.json of" in line
    line = refused("encode", tiny_model, text, "--vectors", "binary", "--out", "folder")
    assert "its vectors were made with normalize True, not False" in line


def test_vectors_as_bits(isotune: Call, tiny_model: Path, text: Path, sentences: list[str]) -> None:
    isotune("encode", tiny_model, text, "--vectors", "binary")
    assert here() == {"text.txt", "vectors.npy"}
    signs = Encoder.load(tiny_model).encode(sentences) > 0
    np.testing.assert_array_equal(np.unpackbits(np.load("vectors.npy"), axis=1), signs)

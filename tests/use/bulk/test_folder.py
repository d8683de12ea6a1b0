"""A folder of vectors: its files and manifest, what is refused, and how the same job goes on."""

import json
import os
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.use.bulk import folder
from isotune.use.bulk.folder import Outcome, encode_files, find_parts
from isotune.use.bulk.vector_file import Encoded

Encode = Callable[..., Outcome]
COUNT = 6


@pytest.fixture
def text_files(sentences: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files of ten rows in the folder `text` of the current folder."""
    monkeypatch.chdir(tmp_path)
    paths = [Path(f"text/{number}.tsv") for number in range(COUNT)]
    paths[0].parent.mkdir()
    for number, path in enumerate(paths):
        rows = [
            f"{number}-{i}\t{sentence}\n"
            for i, sentence in enumerate(sentences[10 * number :][:10])
        ]
        path.write_text("id\tsentence\n" + "".join(rows))
    return paths


@pytest.fixture
def encode(text_files: list[Path], tiny_model: Path) -> Encode:
    """A function that encodes the files into the folder `out`."""

    def encode(
        *sources: str, encoder: str = str(tiny_model), out: Path = Path("out"), **options: Any
    ) -> Outcome:
        return encode_files(encoder, sources or ["text/*.tsv"], out, **options)

    return encode


def visible_files(folder: Path) -> dict[str, bytes]:
    """The content of the files that readers of the folder see, by their names."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.relative_to(folder).parts[0].startswith((".", "_"))
    }


def test_each_file_becomes_a_file_of_vectors(
    encode: Encode, tiny_model: Path, sentences: list[str]
) -> None:
    done: list[int] = []
    assert encode(advance=done.append) == Outcome(parts=COUNT, made=COUNT, rows=60)
    assert sum(done) == 60
    table = pq.read_table("out")  # the whole folder, without the manifest
    assert table["id"].to_pylist() == [
        f"{number}-{i}" for number in range(COUNT) for i in range(10)
    ]
    vectors = np.array(table["vector"].to_pylist(), np.float32)
    np.testing.assert_allclose(vectors, Encoder.load(tiny_model).encode(sentences), atol=1e-5)
    assert sorted(visible_files(Path("out"))) == [f"{number}.parquet" for number in range(COUNT)]


def test_the_manifest_says_how_the_vectors_were_made(encode: Encode, tiny_model: Path) -> None:
    encode(normalize=True, out=Path("a/b"))
    assert json.loads(Path("a/b/_manifest.json").read_text()) == {
        "isotune": version("isotune"),
        "encoder": str(tiny_model),
        "fingerprint": Encoder.load(tiny_model).fingerprint(),
        "dimension": 32,
        "precision": "as saved",
        "normalize": True,
        "vectors": "float32",
        "columns": {},
    }
    vectors = np.array(pq.read_table("a/b/0.parquet")["vector"].to_pylist())
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)


def test_going_on_encodes_only_what_is_missing_or_has_changed(
    encode: Encode, text_files: list[Path]
) -> None:
    encode("text/[01].tsv")
    assert encode().made == COUNT - 2
    assert encode().made == 0
    before = visible_files(Path("out"))
    Path("out/1.parquet").unlink()
    text_files[4].write_text(text_files[4].read_text().replace("4-", "5-"))
    os.utime(text_files[4], (1e9, 1e9))  # an old file in the place of a new one
    os.utime(text_files[5], (4e9, 4e9))  # as by a clock that is ahead
    Path("out/0.parquet").write_bytes(before["0.parquet"][:100])
    os.utime(text_files[3], (0, 0))
    Path("out/3.parquet").unlink()
    assert encode() == Outcome(COUNT, 5, 50)
    assert encode().made == 0
    with pytest.raises(InputError, match=r"out/0.parquet: it is in out, the folder of the vectors"):
        encode("out")
    after = visible_files(Path("out"))
    assert [name for name in before if before[name] != after[name]] == ["4.parquet"]


@pytest.mark.parametrize("count", [1, 2, 4, 9])
def test_shards_make_every_part_once(encode: Encode, count: int) -> None:
    outcomes = [encode(shard=f"{number}/{count}") for number in range(1, count + 1)]
    made = [outcome.made for outcome in outcomes]
    assert sum(made) == COUNT
    assert [outcome.left for outcome in outcomes] == [
        COUNT - sum(made[: number + 1]) for number in range(count)
    ]
    shared = visible_files(Path("out"))
    shutil.rmtree("out")
    encode()
    assert visible_files(Path("out")) == shared


@pytest.mark.parametrize(
    "shard", ["0/4", "5/4", "0/0", "a/b", "1", "1/", "-1/4", "1/4/2", "1.0/2", " 1/2", "9" * 5000]
)
def test_a_shard_that_cannot_be_is_refused(encode: Encode, shard: str) -> None:
    with pytest.raises(InputError, match="write NUMBER/COUNT"):
        encode(shard=shard)
    assert not Path("out").exists()


@pytest.mark.parametrize(
    "name", ["a\0b", "\ud800", "x" * 5000, "foo://x"], ids=lambda name: name[:5]
)
def test_a_text_that_can_be_no_folder_gets_one_line(encode: Encode, name: str) -> None:
    with pytest.raises(InputError) as caught:
        encode(out=name)
    assert str(caught.value).isprintable()


def test_a_damaged_manifest_is_named(encode: Encode) -> None:
    encode()
    Path("out/_manifest.json").write_text("{")
    with pytest.raises(InputError, match=r"out/_manifest\.json: it can't be read as JSON"):
        encode()


@pytest.mark.parametrize("manifest", [None, "{"], ids=["whole", "damaged"])
def test_what_a_failed_first_command_leaves_hinders_no_other_encoder(
    encode: Encode, text_files: list[Path], manifest: str | None
) -> None:
    Path("text/bad.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(InputError, match="can't be encoded"):
        encode("text/bad.txt")
    assert visible_files(Path("out")) == {}
    Path("out/2024").mkdir()
    Path("out/2024/.0.parquet.1234.part").write_text("left by a killed command")
    if manifest:
        Path("out/_manifest.json").write_text(manifest)
    assert encode(encoder="bert-tiny", normalize=True).made == COUNT
    with pytest.raises(InputError, match="it holds vectors of another encoder, bert-tiny"):
        encode()


def test_a_folder_that_another_command_begins_anew_gets_no_vectors_of_this_one(
    encode: Encode, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = folder.encode_rows

    def overtaken(*arguments: Any) -> Encoded:
        monkeypatch.setattr(folder, "encode_rows", slow)
        assert encode("text/0.tsv", normalize=True).made == 1
        return slow(*arguments)

    monkeypatch.setattr(folder, "encode_rows", overtaken)
    with pytest.raises(InputError, match=r"with normalize True, not False.* \(6 of 6 parts"):
        encode()
    assert list(visible_files(Path("out"))) == ["0.parquet"]
    assert encode(normalize=True).made == COUNT - 1


def test_a_bad_part_is_named_and_the_others_are_encoded(
    encode: Encode, text_files: list[Path]
) -> None:
    good = text_files[2].read_text()
    text_files[2].write_bytes(b"id\tsentence\n7\tcaf\xe9\n")
    with pytest.raises(
        InputError, match=r"text/2.tsv:2: .* is not UTF-8.* \(1 of 6 parts can't be encoded"
    ):
        encode()
    assert len(visible_files(Path("out"))) == COUNT - 1
    text_files[2].write_text(good)
    assert encode() == Outcome(COUNT, 1, 10)


def test_a_folder_of_other_vectors_is_refused(encode: Encode, tiny_model: Path) -> None:
    encode()
    before = visible_files(Path("out"))
    encoder = Encoder.load(tiny_model, pooling="cls")
    encoder.save("other")
    for options, message in [
        (
            {"encoder": "other"},
            f"out: it holds vectors of another encoder, {tiny_model}; name another folder",
        ),
        (
            {"normalize": True},
            "out: its vectors were made with normalize False, not True; name another folder or "
            "give",
        ),
        (
            {"precision": "bfloat16"},
            "out: its vectors were made with precision as saved, not bfloat16",
        ),
        ({"columns": {"sentence": "id"}}, "out: its vectors were made with columns {}, not"),
        (
            {"out": Path("text")},
            "text: it has files that isotune encode did not make; name a new folder",
        ),
        ({"out": Path("text/0.tsv")}, "text/0.tsv: it has files that isotune encode did not make"),
    ]:
        with pytest.raises(InputError, match=message):
            encode(**options)
    assert visible_files(Path("out")) == before
    shutil.copytree(tiny_model, "copy")
    assert encode(encoder="copy").made == 0


def test_the_names_of_parts(text_files: list[Path]) -> None:
    Path("text/2024/05").mkdir(parents=True)
    Path("text/2024/05/1.tsv").write_text("sentence\na dog\n")
    Path("text/notes.old.jsonl.gz").write_bytes(b"")

    def names(*sources: str) -> list[str]:
        return [part.name for part in find_parts(sources)]

    assert names("text/**/1.tsv", "./text/1.tsv") == ["1.parquet", "2024/05/1.parquet"]
    assert names("text/2024/*/1.tsv") == names("text/2024") == ["05/1.parquet"]
    assert names(str(Path("text/notes.old.jsonl.gz").absolute())) == ["notes.old.parquet"]
    for sources, message in [
        ([], "no files"),
        (
            ["text/1.tsv", "text/2024/05/1.tsv"],
            "text/1.tsv and text/2024/05/1.tsv: both become 1.parquet",
        ),
        (["-"], "-: a folder of vectors gets a file for each file"),
        (["hub:a/b"], "hub:a/b: a folder of vectors"),
        (["stsb-open:train"], "stsb-open:train: a folder of vectors"),
        (["text/*.parquet"], "no file matches"),
        (
            ["text/2024/05", "text/1.tsv"],
            "text/2024/05/1.tsv and text/1.tsv: both become 1.parquet",
        ),
        (["none"], "unknown file or dataset"),
    ]:
        with pytest.raises(InputError, match=message):
            names(*sources)

"""Files and folders from strangers: whatever is in them is read, or refused in one line.

`ISOTUNE_INPUTS` is how many inputs of each kind the slow tests make; `ISOTUNE_SEED` chooses others.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isotune.data import Sentence, read
from isotune.data.rows import Pair, ScoredPair, Triplet
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense
from isotune.errors import InputError
from isotune.lab.studies import read_study
from isotune.lab.studies.study import Study
from isotune.recipes import Recipe, read_recipe

PACKAGE = Path(__file__).parents[2] / "src" / "isotune"
INPUTS = int(os.environ.get("ISOTUNE_INPUTS", "20000"))
SEED = int(os.environ.get("ISOTUNE_SEED", "0"))
KINDS = [Sentence, Pair, ScoredPair, Triplet]
PIECES = [
    *(b"sentence", b"sentence1", b"sentence2", b"score", b"label", b"text", b"anchor", b"positive", b"negative"),
    *(b"\t", b",", b'"', b"\n", b"\r\n", b"\r", b"\0", b"\xef\xbb\xbf", b"\xff", b"\xed\xa0\x80", b"\xe2\x80\xa8"),
    *(b"{", b"}", b"[", b"]", b":", b"null", b"NaN", b"1e999", b"-1", b'"\\ud800"', b"a dog", b"0", b"entailment"),
    *(b'{"sentence": "a"}\n', b'{"text": ["a"]}\n', b'{"sentence": {"a": 1}}\n', b'{"sentence": "\\ud800"}\n'),
    *(b"1" * 5000, b"[" * 3000, b'{"a":' * 3000),
]  # fmt: skip
STRANGE = [0, -1, 1, 10**30, 1.5, float("nan"), float("inf"), "", "x", "../../etc/passwd", "é" * 50, True, [], {}, [1]]
STRANGE += [["a", "b"], {"a": 1}, [[1]], [{}], "cosine:99999999999999999999", "predicted:x:y", "start:", "[MASK]"]


class Tried:
    """Counts what became of inputs."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __call__(self, use: Callable[[], object]) -> None:
        try:
            use()
        except InputError as error:
            self.counts["refused"] += 1
            if "\n" in str(error):
                raise AssertionError(f"more than one line: {error}") from error
        else:
            self.counts["used"] += 1


def thorough(short: int, share: float = 1) -> pytest.MarkDecorator:
    """Runs a test with a few inputs, and slowly with many."""
    return pytest.mark.parametrize("count", [short, pytest.param(int(share * INPUTS), marks=pytest.mark.slow)])


def changed(content: bytes, chance: random.Random, most: int = 5) -> bytes:
    """The content with some other bytes, and maybe cut."""
    damaged = bytearray(content)
    for _ in range(chance.randint(1, most)):
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    return bytes(damaged[: chance.randrange(len(damaged)) if chance.random() < 0.1 else None])


def mutated(value: Any, chance: random.Random, rate: float) -> Any:
    """A table with strange values in some places, and some keys missing or misspelt."""
    if chance.random() < rate:
        return chance.choice(STRANGE)
    if isinstance(value, list):
        return [mutated(item, chance, rate) for item in value]
    if isinstance(value, dict):
        table = {key + "x" * (chance.random() < rate / 4): mutated(item, chance, rate) for key, item in value.items()}
        if table and chance.random() < rate:
            del table[chance.choice(list(table))]
        return table
    return value


def parquet(chance: random.Random) -> bytes:
    """A parquet file with columns of any type, maybe damaged."""
    rows = chance.randrange(5)
    columns = [["a"], [None], [1], [["x"], None, [], ["y", None]], [{"a": 1}], [b"\xff"], [1.5, float("nan")], [True]]
    names = chance.sample(["sentence", "sentence1", "sentence2", "score", "label", "text", "x"], chance.randint(1, 4))
    table = pa.table({name: pa.array((chance.choice(columns) * 5)[:rows]) for name in names})
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return changed(buffer.getvalue(), chance) if chance.random() < 0.6 else buffer.getvalue()


def text_file(suffix: str, chance: random.Random) -> bytes:
    content = b"".join(chance.choices(PIECES, k=chance.randrange(30)))
    if suffix.endswith(".gz"):
        content = gzip.compress(content, 1)
        return changed(content, chance, 2) if chance.random() < 0.5 else content
    return content


@thorough(1500)
def test_files_of_rows(count: int, tmp_path: Path) -> None:
    chance, tried = random.Random(SEED), Tried()
    for _ in range(count):
        suffix = chance.choice([".txt", ".csv", ".tsv", ".jsonl", ".parquet", ".txt.gz", ".tsv.gz", ".jsonl.gz"])
        path = tmp_path / f"rows{suffix}"
        path.write_bytes(parquet(chance) if suffix == ".parquet" else text_file(suffix, chance))
        tried(lambda path=path: list(read(path, chance.choice(KINDS))))  # type: ignore[misc]
    print(f"files of rows: {dict(tried.counts)}")
    assert all(tried.counts[outcome] > count / 100 for outcome in ("used", "refused"))


@thorough(400, 0.5)
def test_recipes_and_studies(count: int, tmp_path: Path) -> None:
    chance, tried, path = random.Random(SEED), Tried(), tmp_path / "file.toml"
    recipes = [*(PACKAGE / "recipes").glob("*.toml")]
    studies = [*(PACKAGE / "lab" / "studies").rglob("*.toml")]
    for _ in range(count):
        recipe, study = (chance.choice(files).read_bytes() for files in (recipes, studies))
        table = mutated(tomllib.loads(recipe.decode()), chance, 0.01)
        tried(lambda table=table: Recipe.from_table(table).table())  # type: ignore[misc]
        table = mutated(tomllib.loads(study.decode()), chance, 0.01)
        tried(lambda table=table: Study.from_table(table))  # type: ignore[misc]
        path.write_bytes(changed(recipe, chance))
        tried(lambda: Recipe.from_table(read_recipe(path)))
        path.write_bytes(changed(study, chance))
        tried(lambda: read_study(path))
    for nested in (b"a=" + b"[" * 5000, b"a=" + b"{a=" * 3000, b"a." * 3000 + b"a=1", b"a=1" + b"0" * 5000):
        path.write_bytes(nested)
        tried(lambda: Recipe.from_table(read_recipe(path)))
        tried(lambda: read_study(path))
    print(f"recipes and studies: {dict(tried.counts)}")
    assert all(tried.counts[outcome] > count / 10 for outcome in ("used", "refused"))


@pytest.mark.slow
@pytest.mark.parametrize("count", [INPUTS // 10])
def test_folders_of_encoders(count: int, tiny_model: Path, tmp_path: Path) -> None:
    chance, tried, folder = random.Random(SEED), Tried(), tmp_path / "encoder"
    encoder = Encoder.load(tiny_model, layers=(0, -1))
    encoder.heads.append(Dense(32, 8))
    encoder.save(folder)
    (folder / "SHA256SUMS").unlink()  # as a stranger's folder
    files = [path for path in folder.rglob("*") if path.is_file()]
    for _ in range(count):
        path = chance.choice(files)
        content = path.read_bytes()
        if path.suffix == ".json" and chance.random() < 0.7:
            path.write_text(json.dumps(mutated(json.loads(content), chance, 0.03)))
        else:
            path.write_bytes(changed(content[:2000], chance) + content[2000:])
        tried(lambda: Encoder.load(folder).encode(["a dog", "the cat eats"]))
        path.write_bytes(content)
    print(f"folders of encoders: {dict(tried.counts)}")
    assert all(tried.counts[outcome] > count / 10 for outcome in ("used", "refused"))


def test_a_named_pipe_is_read_as_a_file(tmp_path: Path) -> None:
    path = tmp_path / "pipe.txt"
    os.mkfifo(path)
    writer = Thread(target=lambda: path.write_text("a dog\na cat\n"))
    writer.start()
    assert [row.sentence for row in read(path, Sentence)] == ["a dog", "a cat"]
    writer.join()


def test_a_file_that_shrinks_while_it_is_read_ends_and_does_not_hang(tmp_path: Path) -> None:
    for name in ("rows.txt", "rows.parquet"):
        path = tmp_path / name
        if name.endswith(".parquet"):
            pq.write_table(
                pa.table({"sentence": [f"{n} {'x' * 50}" for n in range(200_000)]}), path, compression="none"
            )
        else:
            path.write_text("".join(f"{n} {'x' * 50}\n" for n in range(200_000)))
        rows = read(path, Sentence)
        next(rows)
        os.truncate(path, path.stat().st_size // 2)
        tried = Tried()
        tried(lambda rows=rows: list(rows))  # type: ignore[misc]
        assert tried.counts == {"refused" if name.endswith(".parquet") else "used": 1}

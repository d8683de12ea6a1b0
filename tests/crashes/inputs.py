"""Inputs from strangers, and what is done with them: each is used, or refused in one line, in little time and memory.

`tests/crashes/test_input.py` makes inputs of a given structure with hypothesis, and `tests/crashes/fuzz.py` changes
bytes with atheris, which looks for bytes that reach other lines of isotune. Both count here.
"""

from __future__ import annotations

import gzip
import io
import json
import signal
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from isotune.cli.dry_run import describe
from isotune.data import Pair, ScoredPair, Sentence, Triplet, read
from isotune.data.cache import TextCache
from isotune.data.layouts import LAYOUTS, read_layout
from isotune.data.rows import LabelledPair
from isotune.errors import InputError
from isotune.lab.studies import read_study
from isotune.recipes import Recipe, read_recipe

PACKAGE = Path(__file__).parents[2] / "src" / "isotune"
RECIPES = sorted((PACKAGE / "recipes").glob("*.toml"))
STUDIES = sorted((PACKAGE / "lab" / "studies").rglob("*.toml"))
KINDS = [Sentence, Pair, ScoredPair, Triplet, LabelledPair]
SUFFIXES = [".txt", ".csv", ".tsv", ".jsonl", ".parquet", ".txt.gz", ".csv.gz", ".tsv.gz", ".jsonl.gz"]
PARTS = ["STS", "stsb.tsv", "table.tsv", "polarity", "sst.tsv", "trec.txt", ""]  # of each layout
SECONDS = 60  # of processor time: an input that takes longer counts as a hang
LONGEST_REFUSAL = 5000  # characters: a refusal may list all known names, but not repeat a whole file


class Tried:
    """Counts what became of inputs."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        signal.signal(signal.SIGPROF, _hangs)

    def __call__(self, use: Callable[[], object]) -> None:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            use()
        except InputError as error:
            self.counts["refused"] += 1
            if not str(error).isprintable() or len(str(error)) > LONGEST_REFUSAL:
                raise AssertionError(f"not one line of a readable length: {str(error)[:1000]!r}") from error
        else:
            self.counts["used"] += 1
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


def _hangs(*_: object) -> None:
    raise AssertionError(f"an input took more than {SECONDS} seconds of processor time")


def use_rows(path: Path, kind: int) -> None:
    for _ in read(path, KINDS[kind % len(KINDS)]):
        pass


def use_archive(path: Path, layout: int) -> None:
    for _ in read_layout(list(LAYOUTS)[layout % len(LAYOUTS)], path, PARTS[layout % len(PARTS)]):
        pass


def use_recipe(table: Mapping[str, Any]) -> None:
    plan = Recipe.from_table(table)
    plan.table()
    describe(plan.with_stand_ins(), Path("out"))


def use_cache(path: Path) -> None:
    for _ in TextCache(path, {"kind": "upper"}).get_or_make(["a dog", "a cat"], lambda texts: [*texts], 2):
        pass


def rows_file(data: bytes, folder: Path) -> None:
    data = data.ljust(2, b"\0")
    path = folder / f"rows{SUFFIXES[data[0] % len(SUFFIXES)]}"
    path.write_bytes(data[2:])
    use_rows(path, data[1])


def archive(data: bytes, folder: Path) -> None:
    data = data.ljust(1, b"\0")
    path = folder / "archive"
    path.write_bytes(data[1:])
    use_archive(path, data[0])


def recipe_file(data: bytes, folder: Path) -> None:
    path = folder / "recipe.toml"
    path.write_bytes(data)
    use_recipe(read_recipe(path))


def study_file(data: bytes, folder: Path) -> None:
    path = folder / "study.toml"
    path.write_bytes(data)
    read_study(path)


def cache_file(data: bytes, folder: Path) -> None:
    path = folder / "cache.sqlite"
    path.write_bytes(data)
    use_cache(path)


USES: Mapping[str, Callable[[bytes, Path], None]] = {
    "rows": rows_file,
    "archive": archive,
    "recipe": recipe_file,
    "study": study_file,
    "cache": cache_file,
}


def whole(name: str, folder: Path) -> list[bytes]:
    """Whole inputs of a kind, from which changed ones are made."""
    match name:
        case "rows":
            return [bytes([suffix, kind]) + content for suffix, content in _rows() for kind in range(len(KINDS))]
        case "archive":
            return [bytes([layout]) + content for layout in range(len(LAYOUTS)) for content in _archives()]
        case "recipe":
            return [path.read_bytes() for path in RECIPES]
        case "study":
            return [path.read_bytes() for path in STUDIES]
    path = folder / "whole.sqlite"
    use_cache(path)
    return [path.read_bytes()]


def _rows() -> list[tuple[int, bytes]]:
    """For each format: its number, and a file of it."""
    records = [{"sentence1": f"a dög {n}", "sentence2": "a cat", "score": n, "label": "entailment"} for n in range(3)]
    lines = [list(records[0]), *([str(value) for value in record.values()] for record in records)]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([{**record, "more": [{"a": None}, {"a": 1}]} for record in records]), buffer)
    plain = [
        b"a dog\n\na cat\r\n",
        "\n".join(",".join(f'"{field}"' for field in line) for line in lines).encode(),
        "\n".join("\t".join(line) for line in lines).encode(),
        "\n".join(map(json.dumps, records)).encode(),
    ]
    contents = [*plain, buffer.getvalue(), *(gzip.compress(content) for content in plain)]
    return list(enumerate(contents))


def _archives() -> list[bytes]:
    """The files of all layouts, in a .zip, a .tar and a .tar.gz, and a table by itself."""
    files = {
        "x/STS/STS.input.a.txt": "a dog\ta cat\nb\tc\n",
        "x/STS/STS.gs.a.txt": "1.5\n\n",
        "x/stsb.tsv": "genre\tsubset\t2012\t1\t5.0\ta dog\ta cat\n",
        "x/table.tsv": "Quality\t#1 String\t#2 String\n1\ta dog\ta cat\n",
        "x/polarity/a.pos": "good\n",
        "x/polarity/a.neg": "bad\n",
        "x/sst.tsv": "good\t1\n",
        "x/trec.txt": "DESC:manner How ?\n",
    }
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    with tarfile.open(fileobj=tarred, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return [zipped.getvalue(), tarred.getvalue(), gzip.compress(tarred.getvalue()), b"id\tsimilarity\na\t1\n"]


def reset_peak_memory() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> float:
    """The peak memory of this process since `reset_peak_memory`, in megabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000

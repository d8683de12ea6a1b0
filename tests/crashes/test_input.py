"""Files and folders from strangers: whatever is in them is read, or refused in one line.

`ISOTUNE_INPUTS` is how many inputs of each kind the slow tests make; `ISOTUNE_SEED` chooses others.
"""

import gzip
import io
import json
import os
import signal
import tomllib
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from isotune.data import Pair, ScoredPair, Sentence, Triplet, read
from isotune.data.datasets import stand_ins
from isotune.data.layouts import LAYOUTS, read_layout
from isotune.data.rows import LabelledPair
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.lab.studies import read_study
from isotune.lab.studies.study import Study
from isotune.recipes import Recipe, read_recipe
from tests.hub.senteval import tarred

INPUTS = int(os.environ.get("ISOTUNE_INPUTS", "20000"))
SEED = int(os.environ.get("ISOTUNE_SEED", "0"))
ROUND = 5000  # hypothesis remembers what it tried, so its memory grows with the inputs of a round

PIECES = [
    b"sentence",
    b"sentence1",
    b"sentence2",
    b"score",
    b"label",
    b"text",
    b"anchor",
    b"positive",
    b"negative",
    b"\t",
    b",",
    b'"',
    b"\n",
    b"\r\n",
    b"\r",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xe2\x80\xa8",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b"null",
    b"NaN",
    b"1e999",
    b"-1",
    b'"\\ud800"',
    b"a dog",
    b"0",
    b"entailment",
    b'{"sentence": "a"}\n',
    b'{"text": ["a"]}\n',
    b'{"sentence": {"a": 1}}\n',
    b'{"sentence": "\\ud800"}\n',
    b"1" * 5000,
    b"[" * 3000,
    b'{"a":' * 3000,
]
STRANGE = [
    0,
    -1,
    1,
    10**30,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "../../etc/passwd",
    "é" * 50,
    True,
    [],
    {},
    [1],
]
STRANGE += [
    ["a", "b"],
    {"a": 1},
    [[1]],
    [{}],
    "cosine:99999999999999999999",
    "predicted:x:y",
    "start:",
    "[MASK]",
    "\0",
]
NAMES = ["sentence", "sentence1", "sentence2", "score", "label", "text", "x", "\ud800", ""]
COLUMNS = [
    pa.array(["a", None, "b"]),
    pa.array([None, None, None]),
    pa.array([1, 2, None]),
    pa.array([b"\xff", b"a", b""]),
    pa.array([1.5, float("nan"), None]),
    pa.array([True, False, None]),
    pa.array([["x", None], None, []]),
    pa.array([{"a": 1}, None, {"a": None}]),
    pa.array([[{"a": ["x"]}], [], None]),
    pa.array(["a"] * 3).dictionary_encode(),
    pa.array(["a", "b", "c"], pa.large_string()),
    pa.array([0, 1, -1], pa.timestamp("ns")),
    pa.array(["a", "", " "]),
    pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
]

PACKAGE = Path(__file__).parents[2] / "src" / "isotune"
RECIPES = [
    tomllib.loads(path.read_text("utf-8")) for path in sorted((PACKAGE / "recipes").glob("*.toml"))
]
STUDIES = [
    tomllib.loads(path.read_text("utf-8"))
    for path in sorted((PACKAGE / "lab" / "studies").rglob("*.toml"))
]
KINDS = [Sentence, Pair, ScoredPair, Triplet, LabelledPair]
SUFFIXES = [
    ".txt",
    ".csv",
    ".tsv",
    ".jsonl",
    ".parquet",
    ".txt.gz",
    ".csv.gz",
    ".tsv.gz",
    ".jsonl.gz",
]
PARTS = ["STS", "stsb.tsv", "table.tsv", "polarity", "sst.tsv", "trec.txt", ""]  # of each layout
SECONDS = 60  # of processor time: an input that takes longer counts as a hang
LONGEST_REFUSAL = (
    5000  # characters: a refusal may list all known names, but not repeat a whole file
)


class Tried:
    """Counts what became of inputs: each is used, or refused in one line, in little time."""

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
                raise AssertionError(
                    f"not one line of a readable length: {str(error)[:1000]!r}"
                ) from error
        else:
            self.counts["used"] += 1
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


def _hangs(*_: object) -> None:
    raise AssertionError(f"an input took more than {SECONDS} seconds of processor time")


def use_recipe(table: Mapping[str, Any]) -> None:
    plan = Recipe.from_table(table)
    plan.table()
    plan.with_sources(stand_ins)


def archives() -> list[bytes]:
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
    zipped, plain = io.BytesIO(), tarred(files)
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return [zipped.getvalue(), plain, gzip.compress(plain), b"id\tsimilarity\na\t1\n"]


def reset_peak_memory() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> float:
    """The peak memory of this process since `reset_peak_memory`, in megabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000


def thorough(short: int, share: float = 1) -> pytest.MarkDecorator:
    """Runs a test with a few inputs, and slowly with many."""
    return pytest.mark.parametrize(
        "count", [short, pytest.param(int(share * INPUTS), marks=pytest.mark.slow)]
    )


def try_all(
    name: str,
    count: int,
    inputs: st.SearchStrategy[Any],
    use: Callable[[Any], object],
    least: float,
) -> None:
    """Tries so many inputs.

    At least a share `least` of them has to be used, and as many refused.
    """
    tried = Tried()
    reset_peak_memory()
    before = peak_memory()
    for number in range(0, count, ROUND):
        options = settings(
            max_examples=min(ROUND, count - number),
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        seed(1_000_000 * SEED + number)(
            options(given(inputs)(lambda item: tried(lambda: use(item))))
        )()
    print(f"{name}: {dict(tried.counts)}, memory grew by {peak_memory() - before:.0f} MB")
    assert tried.counts.total() >= count
    assert all(tried.counts[outcome] > count * least for outcome in ("used", "refused")), (
        tried.counts
    )
    assert peak_memory() - before < 500


@st.composite
def changed(draw: st.DrawFn, content: bytes, most: int = 5) -> bytes:
    """The content with some other bytes, and maybe cut."""
    damaged = bytearray(content)
    for _ in range(draw(st.integers(1, most))):
        damaged[draw(st.integers(0, len(damaged) - 1))] = draw(st.integers(0, 255))
    return bytes(
        damaged[: draw(st.integers(0, len(damaged)))] if draw(st.integers(0, 9)) == 0 else damaged
    )


@st.composite
def mutated(draw: st.DrawFn, table: Any) -> Any:
    """A table with strange values in some places, and some keys missing or misspelt."""
    for _ in range(draw(st.integers(0, 3))):
        table = _elsewhere(draw, table)
    return table


def _elsewhere(draw: st.DrawFn, value: Any) -> Any:
    """The value with one change, at a place as deep as is drawn."""
    if isinstance(value, dict | list) and value and draw(st.integers(0, 3)):
        copied: Any = value.copy()
        place = draw(st.sampled_from(list(value) if isinstance(value, dict) else range(len(value))))
        copied[place] = _elsewhere(draw, value[place])
        if isinstance(value, dict) and not draw(st.integers(0, 9)):
            copied[f"{place}x"] = copied.pop(place)
        elif not draw(st.integers(0, 9)):
            del copied[place]
        return copied
    return draw(st.sampled_from(STRANGE))


@st.composite
def files_of_rows(draw: st.DrawFn) -> tuple[str, bytes, int]:
    """The ending, the content and the number of the row type of a file of any format."""
    suffix, kind = draw(st.sampled_from(SUFFIXES)), draw(st.integers(0, 4))
    if suffix == ".parquet":
        names = draw(st.lists(st.sampled_from(NAMES[:-2]), min_size=1, max_size=4, unique=True))
        buffer = io.BytesIO()
        pq.write_table(pa.table({name: draw(st.sampled_from(COLUMNS)) for name in names}), buffer)
        content = buffer.getvalue()
        return suffix, draw(changed(content)) if draw(st.booleans()) else content, kind
    if draw(st.booleans()):
        content = b"".join(
            draw(st.lists(st.sampled_from(PIECES) | st.binary(max_size=5), max_size=30))
        )
    else:
        content = _table(draw, suffix)
    if suffix.endswith(".gz"):
        content = gzip.compress(content, 1)
        content = draw(changed(content, 2)) if draw(st.booleans()) else content
    return suffix, content, kind


def _table(draw: st.DrawFn, suffix: str) -> bytes:
    """Rows with usual columns and any text, in the format of a line."""
    names = draw(
        st.sampled_from(
            [NAMES[:1], NAMES[1:3], NAMES[1:4], [*NAMES[1:3], "label"], NAMES[5:7], NAMES[7:]]
        )
    )
    text = st.text(max_size=10) | st.sampled_from(
        ["a dog", "entailment", "contradiction", "1.5", "NaN", "\ufeff"]
    )
    rows = draw(st.lists(st.tuples(*[text for _ in names]), max_size=5))
    end, between = (
        draw(st.sampled_from(["\n", "\r\n", "\r"])),
        "," if suffix.startswith(".csv") else "\t",
    )
    if suffix.startswith(".jsonl"):
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    else:
        lines = [between.join(fields) for fields in [names, *rows]]
    return end.join(lines).encode(errors="surrogatepass")


@thorough(400)
def test_files_of_rows(count: int, tmp_path: Path) -> None:
    def use(file: tuple[str, bytes, int]) -> None:
        path = tmp_path / f"rows{file[0]}"
        path.write_bytes(file[1])
        for _ in read(path, KINDS[file[2] % len(KINDS)]):
            pass

    try_all("files of rows", count, files_of_rows(), use, 0.02)


@thorough(200, 0.5)
def test_recipes(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    try_all("recipes", count, st.sampled_from(RECIPES).flatmap(mutated), use_recipe, 0.03)


@thorough(100, 0.25)
def test_studies(count: int) -> None:
    try_all("studies", count, st.sampled_from(STUDIES).flatmap(mutated), Study.from_table, 0.1)


@pytest.mark.parametrize(
    "use", [lambda path: use_recipe(read_recipe(path)), read_study], ids=["recipe", "study"]
)
def test_tables_nested_thousands_of_times(use: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "table.toml"
    too_large = b"a." * 50_000 + b"a=1"
    for nested in (
        b"a=" + b"[" * 5000,
        b"a=" + b"{a=" * 3000,
        b"a." * 3000 + b"a=1",
        b"a=1" + b"0" * 5000,
        too_large,
    ):
        path.write_bytes(nested)
        with pytest.raises(InputError):
            use(path)


@thorough(200, 0.25)
def test_archives(count: int, tmp_path: Path) -> None:
    path = tmp_path / "archive"
    kinds = [
        (layout, part, content)
        for layout, part in zip(LAYOUTS, PARTS, strict=True)
        for content in archives()
    ]

    def use(archive: tuple[str, str, bytes]) -> None:
        layout, part, content = archive
        path.write_bytes(content)
        for _ in read_layout(layout, path, part):
            pass

    inputs = st.sampled_from(kinds).flatmap(
        lambda kind: st.tuples(*map(st.just, kind[:2]), changed(kind[2]))
    )
    try_all("archives", count, inputs, use, 0.02)


@thorough(150, 0.5)
def test_texts(count: int, encoder: Encoder) -> None:
    words = st.text(max_size=20) | st.sampled_from(
        ["a dog", "\0", "\ufeff", "\u2028", "e" + "\u0301" * 500, "x" * 999]
    )

    def use(texts: list[str]) -> None:
        assert np.isfinite(encoder.encode(texts)).all()

    texts = st.lists(words | st.sampled_from(["\ud800", "a\udfff"]), min_size=1, max_size=6)
    try_all("texts", count, texts, use, 0.05)


def test_a_named_pipe_is_read_as_a_file(tmp_path: Path) -> None:
    path = tmp_path / "pipe.txt"
    os.mkfifo(path)
    writer = Thread(target=lambda: path.write_text("a dog\na cat\n"))
    writer.start()
    assert [row.sentence for row in read(path, Sentence)] == ["a dog", "a cat"]
    writer.join()


def test_a_line_of_a_gigabyte_is_refused_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "line.txt.gz"
    path.write_bytes(gzip.compress(b"a" * 1_000_000) * 1000)
    assert path.stat().st_size < 2_000_000
    reset_peak_memory()
    before = peak_memory()
    with pytest.raises(
        InputError, match=r"line\.txt\.gz:1: a line of more than 1,000,000 characters, the limit"
    ):
        list(read(path, Sentence))
    assert peak_memory() - before < 50


def test_a_file_that_shrinks_while_it_is_read_ends_and_does_not_hang(tmp_path: Path) -> None:
    for name in ("rows.txt", "rows.parquet"):
        path = tmp_path / name
        if name.endswith(".parquet"):
            table = pa.table({"sentence": [f"{n} {'x' * 50}" for n in range(20_000)]})
            pq.write_table(table, path, compression="none", data_page_size=10_000)
        else:
            path.write_text("".join(f"{n} {'x' * 50}\n" for n in range(20_000)))
        rows = read(path, Sentence)
        next(rows)
        os.truncate(path, path.stat().st_size // 2)
        tried = Tried()
        tried(lambda rows=rows: list(rows))  # type: ignore[misc]
        assert tried.counts == {"refused" if name.endswith(".parquet") else "used": 1}

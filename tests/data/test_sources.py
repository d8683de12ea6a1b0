import csv
import gzip
import io
import json
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotune.data.records import LONGEST_LINE
from isotune.data.rows import (
    LabelledPair,
    LabelledSentence,
    Pair,
    Row,
    ScoredPair,
    Sentence,
    Triplet,
)
from isotune.data.sources import checked_rows, read, read_scored_pairs
from isotune.errors import InputError

Table = list[dict[str, str]]


def write_tsv(rows: Table) -> bytes:
    lines = [list(rows[0]), *(row.values() for row in rows)]
    return "".join("\t".join(line) + "\n" for line in lines).encode()


def write_csv(rows: Table) -> bytes:
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode()


def write_parquet(rows: Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


TABLES: dict[str, Callable[[Table], bytes]] = {
    "tsv": write_tsv,
    "csv": write_csv,
    "jsonl": lambda rows: "".join(json.dumps(row) + "\n" for row in rows).encode(),
    "parquet": write_parquet,
}
FORMATS = {"txt": lambda rows: "".join(f"{row['sentence']}\n" for row in rows).encode(), **TABLES}

# Anything but what ends a line or a field; U+2028, U+0085 and quotes are text.
sentences = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\t\0")).filter(
    str.strip
)


def refused(
    source: object, row: type[Row] = Sentence, columns: dict[str, str] | None = None
) -> str:
    with pytest.raises(InputError) as error:
        list(read([source], row, columns))  # type: ignore[list-item]
    return str(error.value)


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize("suffix", FORMATS)
@given(written=st.lists(sentences, min_size=1))
@settings(max_examples=20, deadline=None)
def test_what_is_written_is_read(
    suffix: str, compressed: bool, written: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = FORMATS[suffix]([{"sentence": sentence} for sentence in written])
    path = tmp_path_factory.mktemp("data") / f"a.b.{suffix.upper()}"
    if compressed and suffix != "parquet":
        path = path.with_name(path.name + ".gz")
        content = gzip.compress(content, 1)
    path.write_bytes(content)
    assert [row.sentence for row in read([path], Sentence)] == [
        sentence.strip() for sentence in written
    ]


@pytest.mark.parametrize("suffix", TABLES)
def test_every_kind_of_row_is_read(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(
        TABLES[suffix]([{"id": "7", "anchor": 'a "b"', "positive": "c, d", "negative": "e"}])
    )
    assert list(read(path, Triplet)) == [Triplet('a "b"', "c, d", "e")]
    assert list(read(path, Pair)) == [Pair('a "b"', "c, d")]
    assert list(read(path, Sentence)) == [Sentence('a "b"'), Sentence("c, d"), Sentence("e")]
    assert list(read(path, Sentence, {"sentence": "negative"})) == [Sentence("e")]
    path.write_bytes(
        TABLES[suffix]([{"sentence1": "a", "sentence2": "b", "score": "2.5", "label": "x"}])
    )
    assert list(read(path, ScoredPair)) == [ScoredPair("a", "b", 2.5)]
    assert list(read(path, LabelledPair)) == [LabelledPair("a", "b", "x")]


def test_line_ends_blank_lines_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone \r\n\r\n  \n two\xe2\x80\xa8three\nfour")
    assert list(read(path, Sentence)) == [
        Sentence("one"),
        Sentence("two\u2028three"),
        Sentence("four"),
    ]
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfid,sentence\r\n1,"one\r\ntwo"\r\n\r\n2,three\r\n')
    assert list(read(path, Sentence)) == [Sentence("one\r\ntwo"), Sentence("three")]


def test_quotes_in_a_tsv_are_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A warning comes only where a program has certainly put them around fields."""
    path = tmp_path / "a.tsv"
    for rows in (
        [Pair('"What?" he', 'said "no'), Pair('"', '"')],
        [Pair('"Stop!"', 'say "no"'), Pair('"no"', "b")],
    ):
        path.write_text("\n".join(map("\t".join, [Pair._fields, *rows])) + "\n")
        assert list(read(path, Pair)) == rows
    assert not caplog.records
    pd.DataFrame([('He said "stop"', "b")], columns=Pair._fields).to_csv(
        path, sep="\t", index=False
    )
    list(read(path, Pair))
    assert "the quotes around fields are read as text in a .tsv" in caplog.text


def test_sources_are_read_in_order_and_patterns_sorted(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("b.txt", "a.txt", "folder/c.txt", "odd[1].txt"):
        (tmp_path / name).write_text(f"in {name}\n")
    assert list(read([tmp_path / "b.txt", f"{tmp_path}/[ab].txt"], Sentence)) == [
        Sentence("in b.txt"),
        Sentence("in a.txt"),
        Sentence("in b.txt"),
    ]
    assert len(list(read([f"{tmp_path}/**"], Sentence))) == 4
    assert list(read(f"{tmp_path}/odd[1].txt", Sentence)) == [Sentence("in odd[1].txt")]


def test_standard_input_is_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one\n\ntwo\xff\n")))
    rows = read(["-"], Sentence)
    assert next(rows) == Sentence("one")
    with pytest.raises(
        InputError, match=r"^<stdin>:3: byte 4 of the line, 0xff, is not UTF-8; latin-1 becomes"
    ):
        next(rows)


def test_python_objects_are_rows() -> None:
    assert list(read([["a", " b "], ("c",)], Sentence)) == [
        Sentence("a"),
        Sentence("b"),
        Sentence("c"),
    ]
    assert list(read([iter([Pair("a", "b")])], Sentence)) == [Sentence("a"), Sentence("b")]
    assert list(read([[("a", "b", 1)]], ScoredPair)) == [ScoredPair("a", "b", 1.0)]
    assert list(read([[Triplet("a", "b", "c")]], Pair)) == [Pair("a", "b")]
    labelled = [{"text": "a", "label": np.int64(1)}, {"text": "b", "label": "x"}]
    assert list(read([labelled], LabelledSentence)) == [
        LabelledSentence("a", "1"),
        LabelledSentence("b", "x"),
    ]


@pytest.mark.parametrize("rows", ["notes.txt", b"a", Path("notes.txt"), {"text": ["a"]}, 3])
def test_what_is_no_list_of_rows_is_refused(rows: Any) -> None:
    with pytest.raises(InputError, match=r"rows: a table, or a list of sentences"):
        checked_rows(rows)


CELLS = {"text": ["a lamp", "a \u00e9toile"], "label": ["x", "y"]}


@pytest.mark.parametrize(
    "table",
    [
        pa.table(CELLS),
        pd.DataFrame(CELLS, index=["one", "two"]),
        datasets.Dataset.from_dict(CELLS),
        datasets.Dataset.from_dict(CELLS).to_iterable_dataset(),
        pa.table(CELLS).to_reader(),
        pa.table(CELLS).to_pylist(),
        iter(pa.table(CELLS).to_pylist()),
    ],
    ids=lambda table: type(table).__name__,
)
def test_tables_and_dicts_are_rows(table: Any) -> None:
    rows = [LabelledSentence("a lamp", "x"), LabelledSentence("a \u00e9toile", "y")]
    assert list(read([table], LabelledSentence)) == rows


@pytest.mark.parametrize(
    "column",
    [
        *(
            pd.Series(["a", "b"]),
            np.array(["a", "b"]),
            datasets.Dataset.from_dict({"t": ["a", "b"]})["t"],
        ),
        *(pd.DataFrame({"text": ["a", missing, "b"]}) for missing in (None, float("nan"), pd.NA)),
    ],
)
def test_a_column_is_a_list_of_sentences_and_missing_texts_are_left_out_as_in_a_file(
    column: Any,
) -> None:
    assert list(read([column], Sentence)) == [Sentence("a"), Sentence("b")]


CLASSES = datasets.Features(
    {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])}
)
LABELLED = datasets.Dataset.from_dict(
    {"text": ["a", "b", "c", "d"], "label": [1, 0, -1, None]}, features=CLASSES
)
NAMED = [LabelledSentence("a", "yes"), LabelledSentence("b", "no")]


@pytest.mark.parametrize(
    "table",
    [
        LABELLED,
        LABELLED.with_format("numpy"),
        LABELLED.to_iterable_dataset(),
        LABELLED.data.table,
        LABELLED.data.table.to_reader(),
    ],
    ids=lambda table: type(table).__name__,
)
def test_a_class_column_of_a_table_in_memory_is_read_as_one_of_the_hub(
    table: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert list(read([table], LabelledSentence)) == NAMED
    assert caplog.messages == ["<rows>: 2 rows left out, without a class label (-1 or no value)"]


def test_a_class_column_of_a_parquet_file_is_read_as_one_of_the_hub(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.parquet"
    LABELLED.to_parquet(path)
    assert list(read(path, LabelledSentence)) == NAMED
    assert caplog.messages == [f"{path}: 2 rows left out, without a class label (-1 or no value)"]
    assert [row.sentence for row in read(path, Sentence)] == ["a", "b", "c", "d"]


def test_classes_are_numbers_where_scores_are_needed() -> None:
    features = datasets.Features(
        {
            "sentence1": datasets.Value("string"),
            "sentence2": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["no", "yes"]),
        }
    )
    cells = {"sentence1": ["a", "b"], "sentence2": ["c", "d"], "label": [0, 1]}
    table = datasets.Dataset.from_dict(cells, features=features)
    assert [row.score for row in read(table, ScoredPair)] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([-1, -1], "<rows>: no row has a class label: all 2 have -1 or no value"),
        ([0, 2], "<rows>:2: label is 2, but has 2 classes, from 0"),
    ],
)
def test_classes_that_give_no_rows_are_refused(labels: list[int], message: str) -> None:
    table = pa.table(
        {"text": ["a", "b"], "label": pa.array(labels)}, schema=LABELLED.data.table.schema
    )
    assert refused(table, LabelledSentence) == message


LABELS = [1.0, float("nan"), 2.0]


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"text": ["a", "b", "c"], "label": LABELS}),
        pa.table({"text": ["a", "b", "c"], "label": LABELS}),
        [{"text": text, "label": label} for text, label in zip("abc", LABELS, strict=True)],
        [LabelledSentence("a", 1.0), LabelledSentence("b", pd.NA), LabelledSentence("c", 2.0)],  # type: ignore[arg-type]
    ],
    ids=lambda table: type(table).__name__,
)
def test_whole_labels_beside_a_missing_one_stay_whole(table: Any) -> None:
    assert list(read([table], LabelledSentence)) == [
        LabelledSentence("a", "1"),
        LabelledSentence("c", "2"),
    ]


def test_a_list_may_lack_a_sentence_as_a_table_may() -> None:
    assert list(read([["a", None, float("nan"), pd.NA, "b"]], Sentence)) == [  # type: ignore[list-item]
        Sentence("a"),
        Sentence("b"),
    ]


def rows_twice() -> Any:
    yield Pair("a", "b")
    yield Pair("c", "d")


@pytest.mark.parametrize(
    "make", [rows_twice, lambda: pa.table({"question": ["a"], "answer": ["b"]}).to_reader()]
)
def test_rows_that_can_be_read_only_once_say_so(make: Callable[[], Any]) -> None:
    rows = make()
    assert list(read([rows], Pair))
    assert (
        "another iterator, gives its rows once, and this one is empty or was read before"
        in refused(rows, Pair)
    )
    rows = make()
    with pytest.raises(InputError, match="gives its rows once"):
        list(read([rows, rows], Pair))


@pytest.mark.parametrize("table", [pd.DataFrame(CELLS), LABELLED, [*rows_twice()], pa.table(CELLS)])
def test_rows_in_memory_can_be_read_again(table: Any) -> None:
    assert list(read([table], Sentence)) == list(read([table], Sentence))


@pytest.mark.parametrize("kind", [pa.table, pd.DataFrame])
def test_two_columns_of_one_name_are_refused_as_in_a_file(kind: Any) -> None:
    if kind is pa.table:
        table = pa.table([["a"], ["b"]], names=["text", "text"])
    else:
        table = pd.DataFrame([["a", "b"]], columns=["text", "text"])
    message = refused(table)
    assert message.startswith(("<rows>: two columns have", "rows: the table can't be read (Dupl"))


def test_only_the_columns_that_are_read_must_have_values_of_python() -> None:
    table = pa.table({"text": ["a"], "far": pa.array([2**40], pa.timestamp("s"))})
    assert list(read([table], Sentence)) == [Sentence("a")]


@pytest.mark.parametrize("table", [pd.DataFrame(CELLS), datasets.Dataset.from_dict(CELLS)])
def test_a_table_needs_no_list_around_it(table: Any) -> None:
    assert [row.sentence for row in read(table, Sentence, {"sentence": "label"})] == ["x", "y"]


def test_a_column_of_several_kinds_is_refused() -> None:
    with pytest.raises(InputError, match=r"rows: the table can't be read \(.*text"):
        list(read(pd.DataFrame({"text": ["a", 3]}), Sentence))


@pytest.mark.parametrize("sentence", ["a lamp", "Is it on?", "How [do] I reset it? " * 30])
def test_who_gives_sentences_as_sources_is_told_how_to_give_them(sentence: str) -> None:
    with pytest.raises(
        InputError, match=r"sentences are no sources: in Python they are given as rows=\[...\]"
    ):
        read([sentence], Sentence)


@pytest.mark.parametrize(
    ("items", "row", "message"),
    [
        ([3], Sentence, "<rows>:1: a string, a dict or Sentence(sentence) is needed, not 3"),
        (
            ["a", ("b", "c")],
            Sentence,
            "<rows>:2: a string, a dict or Sentence(sentence) is needed, not ('b', 'c')",
        ),
        (
            [("a", "b"), ("a", "b", "c")],
            Pair,
            "<rows>:2: a string, a dict or Pair(sentence1, sentence2) is needed",
        ),
    ],
)
def test_python_objects_that_are_no_rows(items: list[object], row: type[Row], message: str) -> None:
    assert message in refused(items, row)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "a.txt: empty"),
        ("a.parquet", b"", "a.parquet: not a whole parquet file (Parquet file size is 0 bytes"),
        ("a.txt", b"\n \n\r\n", "a.txt: nothing in it but blank lines or a header"),
        ("a.csv", b"sentence\n", "a.csv: nothing in it but blank lines or a header"),
        (
            "a.txt",
            b"one\nt\xe9o\n",
            "a.txt:2: byte 2 of the line, 0xe9, is not UTF-8; latin-1 becomes UTF-8 by iconv -f l",
        ),
        ("a.tsv", b"sentence\na\0b\n", "a.tsv:2: a NUL byte"),
        ("a.csv", b"sentence\nt\xe9o\n", "/a-utf8.csv"),
        ("new.csv", b"sentence\nt\xe9o\n", "/new-utf8.csv"),
        (
            "a.csv.gz",
            gzip.compress(b"sentence\nt\xe9o\n"),
            "a.csv.gz | iconv -f latin-1 -t utf-8 > ",
        ),
        ("a.csv.gz", gzip.compress(b"sentence\nt\xe9o\n"), "/a-utf8.csv"),
        (
            "a.txt",
            "one".encode("utf-16"),
            "a.txt:1: a NUL byte: binary, or UTF-16; that becomes UTF-8 by iconv -f ut",
        ),
        (
            "a.txt",
            b"one\n" + b"a" * (LONGEST_LINE + 1),
            "a.txt:2: a line of more than 1,000,000 characters",
        ),
        ("a.tsv", b"sentence\tid\na\t1\nb\n", "a.tsv:3: 1 field, but the first line names 2"),
        ("a.csv", b"sentence,id\na,b,c\n", "a.csv:2: 3 fields, but the first line names 2"),
        ("a.csv", b'id,sentence\n1,"a\nb"\n2\n', "a.csv:4: 1 field, but the first line names 2"),
        ("a.csv", b'sentence\n"open\nb\n', "a.csv:3: not valid CSV (unexpected end of data)"),
        (
            "a.csv",
            b'sentence\n"open' + b"a\n" * 600_000,
            "not valid CSV (field larger than field limit",
        ),
        ("a.tsv", b"a\ta\nb\tc\n", "a.tsv:1: two columns have the same name"),
        (
            "a.jsonl",
            b'{"sentence": "a"}\n{"sentence"',
            "a.jsonl:2: not valid JSON (Expecting ':' delimiter)",
        ),
        ("a.jsonl", b'["a"]\n', 'a.jsonl:1: a JSON object is needed, not ["a"]'),
        ("a.jsonl", b"[" * 900_000, "a.jsonl:1: not valid JSON ("),
        ("a.jsonl", b'{"sentence": ' + b"9" * 5000 + b"}", "a.jsonl:1: not valid JSON ("),
        ("a.txt.gz", b"no gzip", "a.txt.gz: not a whole gzip file (Not a gzipped file"),
        (
            "a.txt.gz",
            gzip.compress(b"one\n" * 99, mtime=0)[:-9],
            "a.txt.gz: not a whole gzip file (Compressed file",
        ),
        (
            "a.doc",
            b"one\n",
            "a.doc: unknown format; known are .txt, .csv, .tsv, .jsonl, .ndjson, each also with "
            ".gz, and",
        ),
        ("a.parquet.gz", b"", "a.parquet.gz: unknown format"),
        ("a.md", b"", "a.md -t plain --wrap=none -o a.txt"),
        ("a.pdf", b"", "a document becomes text by pdftotext "),
        ("a b.docx", b"", "a document becomes text by pandoc '"),
        ("a.doc", b"", "a document becomes text by soffice --headless --convert-to txt:Text "),
        ("a.html", b"", "a document becomes text by pandoc "),
        ("a.zip", b"", "unpack it by unzip "),
        ("a.txt.bz2", b"", "unpack it by bunzip2 --keep "),
        ("a.parquet.gz", b"", "unpack it by gunzip --keep "),
        ("a.json.gz", b"", "unpack it by gunzip --keep "),
        ("a.tar.gz", b"", "unpack it by tar -xf "),
        ("a.TGZ", b"", "unpack it by tar -xf "),
        ("a.json", b"", "name it .jsonl if each of its lines is an object; a list of objects beco"),
        ("a.json", b"", "a.json > a.jsonl"),
        ("a.xlsx", b"", "save its table as .csv or .parquet"),
        ("a.npy", b"", "a file with this ending holds no text"),
        ("notes", b"", "name has no ending: name it .txt if each of its lines is a sentence"),
        (
            "a.log",
            b"",
            "name it .txt if each of its lines is a sentence, or .csv or .tsv if it is a",
        ),
    ],
)
def test_a_bad_file_is_refused_in_one_line(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    assert message in refused(tmp_path / name)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("stsbb", "unknown file or dataset 'stsbb': did you mean 'stsb' or 'stsb-"),
        (
            "stsb:trian",
            "unknown split of stsb 'trian': did you mean 'train'? Known: dev, test, train",
        ),
        ("nowhere/a.txt", "nowhere/a.txt: no such file"),
        ("a" * 300 + ".txt", "aaa: no such file"),
        ("nowhere/*.txt", "nowhere/*.txt: no file matches this pattern"),
        (Path("stsb"), "stsb: no such file"),
        ("~nobody_such/a.txt", "~nobody_such/a.txt: no such file"),
        ("two\nlines/a.txt", "two lines/a.txt: no such file"),
        ("two\nlines/*.txt", "two lines/*.txt: no file matches this pattern"),
        ("nul\0.txt", r"nul\x00.txt: no such file"),
        ("nul\0/*.txt", r"nul\x00/*.txt: no such file"),
        ("a" * 5000, "unknown file or dataset 'aaa"),
        ("a" * 5000 + "/*.txt", "no file matches this pattern"),
        (r"C:\models\x", r"C:\models\x: no such file"),
        (r"C:\data\a.txt", r"C:\data\a.txt: no such file"),
    ],
)
def test_a_source_that_is_not_there_fails_before_anything_is_read(
    source: str | Path, message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        read([["a sentence"], source], Sentence)


@pytest.mark.parametrize("share", ["x", "-1"])
def test_what_is_no_share_behind_a_file_is_refused(share: str, tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.touch()
    message = f"{text}*{share}: no file matches this pattern; a share is a number above 0"
    with pytest.raises(InputError, match=re.escape(message)):
        read(f"{text}*{share}", Sentence)


def test_a_folder_and_no_sources_are_refused(tmp_path: Path) -> None:
    assert f"a folder; name its files with a pattern, such as '{tmp_path}/*.txt'" in refused(
        tmp_path
    )
    with pytest.raises(InputError, match="no data"):
        read([], Sentence)


def test_a_file_that_is_gone_by_the_time_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    rows = read(tmp_path / "a.txt", Sentence)
    (tmp_path / "a.txt").unlink()
    with pytest.raises(InputError, match=r"a\.txt: can't be read \(No such file or directory\)"):
        next(rows)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.jsonl", "a.parquet"])
def test_memory_does_not_grow_with_the_file(name: str, tmp_path: Path) -> None:
    def peak(count: int) -> int:
        random = Random(0)  # not to be compressed away
        table = [{"sentence": f"{random.getrandbits(4000):x}"} for _ in range(count)]
        content = FORMATS[name.split(".")[1]](table)
        (tmp_path / name).write_bytes(
            gzip.compress(content, 1) if name.endswith(".gz") else content
        )
        del table, content
        tracemalloc.start()
        assert sum(1 for _ in read(tmp_path / name, Sentence)) == count
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(100)  # imports
    assert peak(10_000) < 1.2 * peak(4_000)


def test_scored_pairs_of_a_file_with_and_without_subsets(tmp_path: Path) -> None:
    path = tmp_path / "dev.tsv"
    path.write_text("subset\tpremise\thypothesis\tscore\nx\ta\tb\t1\ny\tc\td\t5\n")
    pairs = read_scored_pairs(path)
    assert (pairs.name, pairs.split, pairs.sentence1, pairs.sentence2) == (
        str(path),
        "",
        ["a", "c"],
        ["b", "d"],
    )
    assert pairs.scores.dtype == np.float64
    assert (pairs.scores.tolist(), pairs.subsets) == ([1, 5], ["x", "y"])
    path.write_text("a\tb\tgold\none\ttwo\t1\nthree\tfour\t2\n")
    pairs = read_scored_pairs(
        str(path), columns={"sentence1": "a", "sentence2": "b", "score": "gold"}
    )
    assert pairs.subsets == [str(path), str(path)]


@pytest.mark.parametrize("scores", [["1"], ["2", "2.0", "2"]])
def test_scores_without_variance_are_refused(scores: list[str], tmp_path: Path) -> None:
    path = tmp_path / "dev.tsv"
    path.write_bytes(
        write_tsv([{"sentence1": "a", "sentence2": "b", "score": score} for score in scores])
    )
    with pytest.raises(InputError, match="no variance, so that a correlation is undefined"):
        read_scored_pairs(path)


def test_a_label_that_is_none_of_the_known_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "mood.tsv"
    path.write_text("text\tlabel\na\tgood\nb\tgoood\n")
    rows = read([path], LabelledSentence, labels=("bad", "good"))
    assert next(rows) == LabelledSentence("a", "good")
    with pytest.raises(InputError, match=rf"^{re.escape(str(path))}:3: unknown label 'goood': did"):
        next(rows)
    assert len(list(read([path], LabelledSentence))) == 2

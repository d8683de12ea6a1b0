"""Reads records, {column name: value}, from files and streams, one at a time.

The table `FORMATS` has a function for each file format. It turns a binary stream into (line number,
record) pairs, and holds no more than one line, or one batch of a parquet file, so memory does not
grow with the corpus.

Text is UTF-8. A line ends at a line feed, a carriage return, or both; Unicode's other line
separators are part of a sentence. Blank lines are no records, but they count as lines.
"""

from __future__ import annotations

import csv
import gzip
import json
import logging
import re
import shlex
import zlib
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import TextIOWrapper
from itertools import chain
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, cast

from isotune.bundled import has_model
from isotune.data.rows import Cells, Record, Records, is_missing
from isotune.errors import InputError, as_input_error, counted

if TYPE_CHECKING:
    import pyarrow

logger = logging.getLogger(__name__)

Format: TypeAlias = Callable[[BinaryIO, str], Records]
"""Reads a stream. The second argument is its name for error messages."""

STDIN_NAME = "<stdin>"
"""The name of standard input for error messages."""

LONGEST_LINE = 1_000_000
"""Characters of a line. A longer line is no sentence, but a file without line ends."""

QUOTED = re.compile(r'"([^"]|"")*"')
"""A field in quotes."""

ROWS_AT_ONCE = 1_000
"""Rows of a parquet file that are read together."""


_UNPACK = "unpack it by {} {{file}}"
_PANDOC = "a document becomes text by pandoc {file} -t plain --wrap=none -o {stem}.txt"
_SAVE_TABLE = "save its table as .csv or .parquet"
_NO_TEXT = "a file with this ending holds no text"

ADVICE: Mapping[str, str] = {
    "": "its name has no ending: name it .txt if each of its lines is a sentence",
    ".7z": _UNPACK.format("7z x"),
    ".bz2": _UNPACK.format("bunzip2 --keep"),
    ".gz": _UNPACK.format("gunzip --keep"),
    ".lz4": _UNPACK.format("unlz4"),
    ".rar": _UNPACK.format("unrar x"),
    ".tar": _UNPACK.format("tar -xf"),
    ".tgz": _UNPACK.format("tar -xf"),
    ".xz": _UNPACK.format("unxz --keep"),
    ".zip": _UNPACK.format("unzip"),
    ".zst": _UNPACK.format("unzstd"),
    ".json": (
        "name it .jsonl if each of its lines is an object; a list of objects becomes one by "
        "jq -c '.[]' {file} > {stem}.jsonl"
    ),
    ".doc": "a document becomes text by soffice --headless --convert-to txt:Text {file}",
    ".docx": _PANDOC,
    ".epub": _PANDOC,
    ".fb2": _PANDOC,
    ".htm": _PANDOC,
    ".html": _PANDOC,
    ".ipynb": _PANDOC,
    ".markdown": _PANDOC,
    ".md": _PANDOC,
    ".odt": _PANDOC,
    ".org": _PANDOC,
    ".pdf": "a document becomes text by pdftotext {file}",
    ".rst": _PANDOC,
    ".rtf": _PANDOC,
    ".tex": _PANDOC,
    ".xhtml": _PANDOC,
    ".arrow": _SAVE_TABLE,
    ".avro": _SAVE_TABLE,
    ".db": _SAVE_TABLE,
    ".dta": _SAVE_TABLE,
    ".feather": _SAVE_TABLE,
    ".ods": _SAVE_TABLE,
    ".orc": _SAVE_TABLE,
    ".sav": _SAVE_TABLE,
    ".sqlite": _SAVE_TABLE,
    ".xls": _SAVE_TABLE,
    ".xlsx": _SAVE_TABLE,
    ".bin": _NO_TEXT,
    ".gguf": _NO_TEXT,
    ".jpg": _NO_TEXT,
    ".mp3": _NO_TEXT,
    ".mp4": _NO_TEXT,
    ".npy": _NO_TEXT,
    ".npz": _NO_TEXT,
    ".onnx": _NO_TEXT,
    ".pkl": _NO_TEXT,
    ".png": _NO_TEXT,
    ".pt": _NO_TEXT,
    ".safetensors": _NO_TEXT,
    ".wav": _NO_TEXT,
}
"""For each ending of a file that can't be read, what makes a file of it that can."""

OTHER_ADVICE = "name it .txt if each of its lines is a sentence, or .csv or .tsv if it is a table"
"""The advice for an ending that nobody knows."""


@dataclass(frozen=True)
class Opened:
    """A source that was found, before its records are read."""

    place: str
    """The file, or the place on the hub."""

    records: Records

    commits: Mapping[str, str] = field(default_factory=dict)
    """For each place on the hub, the commit that is read."""


def read_file(path: Path) -> Records:
    """The records of a file, in the format that its name ends with.

    The file is opened when the first record is read.
    """
    if has_model(path):
        raise InputError(
            f"{path}: this is a model, and text is needed here; isotune train takes the model as "
            "--model, other commands take it before the text"
        )
    if path.is_dir():
        raise InputError(f"{path}: a folder; name its files with a pattern, such as '{path}/*.txt'")
    read = format_of(path)

    def stream() -> Records:
        with opened(path) as file:
            yield from read(file, str(path))

    return stream()


def format_of(path: Path) -> Format:
    """The function that reads files whose name ends so; raises `InputError` if there is none."""
    suffix = path.suffix.lower()
    is_compressed = suffix == ".gz"
    if is_compressed:
        suffix = Path(path.stem).suffix.lower()
    is_known = suffix in FORMATS
    if is_compressed and suffix == ".parquet":
        is_known = False
    if not is_known:
        *line_formats, parquet = FORMATS
        formats = f"{', '.join(line_formats)}, each also with .gz, and {parquet}"
        raise InputError(f"{path}: unknown format; known are {formats}; {_how_to_read(path)}")
    return FORMATS[suffix]


def _how_to_read(path: Path) -> str:
    """What makes a file that can be read of a file of an unknown format."""
    suffix = path.suffix.lower()
    # tar unpacks it whole, whatever packs it.
    if ".tar." in path.name.lower():
        suffix = ".tar"
    advice = ADVICE.get(suffix, OTHER_ADVICE)
    return advice.format(file=shlex.quote(str(path)), stem=shlex.quote(path.stem))


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Opens a file as a binary stream, a .gz uncompressed.

    An error of reading in the block becomes one line too.
    """
    problem = f"{path}: not a whole gzip file"
    damaged = as_input_error((EOFError, zlib.error, gzip.BadGzipFile), problem)
    open_file: Callable[..., Any] = open
    if path.suffix.lower() == ".gz":
        open_file = gzip.open
    with as_input_error(OSError, f"{path}: can't be read"), damaged, open_file(path, "rb") as file:
        yield file


def read_text(file: BinaryIO, name: str) -> Records:
    """Reads one sentence a line, as the column "sentence"."""
    lines = 0
    lines_with_tabs = 0
    for number, line in enumerate(decoded_lines(file, name), 1):
        if not line.strip():
            continue
        lines += 1
        if "\t" in line:
            lines_with_tabs += 1
        yield number, {"sentence": line.rstrip("\r\n")}
    if lines == lines_with_tabs > 0:
        logger.warning(
            "%s: each line has tabs, and was read as one sentence; name a table .tsv", name
        )


def _csv(file: BinaryIO, name: str) -> Records:
    # The limit is the process's. It is only ever raised, so that no reader in another thread fails.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    lines = decoded_lines(file, name)
    first = next(lines)
    excel = re.fullmatch(r'"?sep=(.)"?\s*', first)
    if excel:
        skipped = 1
        reader = csv.reader(lines, delimiter=excel[1], strict=True)
    else:
        skipped = 0
        reader = csv.reader(chain([first], lines), strict=True)
    numbered = ((skipped + reader.line_num, cells) for cells in reader)
    try:
        yield from _table(numbered, name)
    except csv.Error as error:
        place = f"{name}:{skipped + reader.line_num}"
        raise InputError(f"{place}: not valid CSV ({error}); maybe a quote is left open") from None


def _tsv(file: BinaryIO, name: str) -> Records:
    """Reads fields between tabs; a quote is a plain character, as in all STS and GLUE files."""
    lines = enumerate(decoded_lines(file, name), 1)
    numbered = ((number, line.rstrip("\r\n").split("\t")) for number, line in lines)
    # Cells that only a program writes that puts fields into quotes, and cells that it never writes.
    quoted = 0
    unquotable = 0
    for number, record in _table(numbered, name):
        for cell in map(str, record.values()):
            if not cell.startswith('"'):
                continue
            if not QUOTED.fullmatch(cell):
                unquotable += 1
            elif '""' in cell[1:-1]:
                quoted += 1
        yield number, record
    if quoted and not unquotable:
        logger.warning(
            "%s: the quotes around fields are read as text in a .tsv; save a .csv if they are not",
            name,
        )


def _jsonl(file: BinaryIO, name: str) -> Records:
    decode = json.JSONDecoder(object_pairs_hook=_object).decode
    for number, line in enumerate(decoded_lines(file, name), 1):
        if not line.strip():
            continue
        try:
            record = decode(line)
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", error)
            raise InputError(f"{name}:{number}: not valid JSON ({reason})") from None
        if not isinstance(record, dict):
            raise InputError(f"{name}:{number}: a JSON object is needed, not {line.strip():.50}")
        yield number, record


def _object(fields: list[tuple[str, object]]) -> dict[str, object]:
    value_of_name = dict(fields)
    if len(value_of_name) < len(fields):
        raise ValueError("an object has two fields of the same name")
    return value_of_name


def _parquet(file: BinaryIO, name: str) -> Records:
    first = 1
    for batch in parquet_batches(file, name, ROWS_AT_ONCE):
        yield from table_records(batch, name, first)
        first += len(batch)


def table_records(batch: pyarrow.RecordBatch, name: str, first: int) -> Records:
    """The records of a part of a table, whose first row has the number `first`."""
    for start in range(0, len(batch), ROWS_AT_ONCE):
        block = _Block(batch.slice(start, ROWS_AT_ONCE))
        for row in range(len(block.batch)):
            number = first + start + row
            yield number, TableRow(block, row, f"{name}:{number}")


class _Block:
    """Some rows of a table. The values of a column are made when somebody asks for one of them."""

    def __init__(self, batch: pyarrow.RecordBatch) -> None:
        self.batch = batch
        self._columns: dict[str, list[object] | None] = {}

    def values(self, name: str) -> list[object] | None:
        """The values of a column; None if some of them are beyond Python's types."""
        if name not in self._columns:
            self._columns[name] = self._converted(name)
        return self._columns[name]

    def _converted(self, name: str) -> list[object] | None:
        column = self.batch.column(name)
        if "[ns" in str(column.type):
            return None
        try:
            return cast(list[object], column.to_pylist())
        except (ValueError, OverflowError):
            return None


@dataclass(frozen=True, eq=False)
class TableRow(Mapping[str, object]):
    """A row of a table; a value becomes one of Python's when somebody asks for it."""

    block: _Block
    row: int
    place: str

    def __getitem__(self, name: str) -> object:
        values = self.block.values(name)
        if values is None:
            return self._checked(name)
        return values[self.row]

    def _checked(self, name: str) -> object:
        """A value of a column of which some are beyond Python's types."""
        value = self.block.batch.column(name)[self.row]
        place = f"{self.place}: column {name!r}"
        if "[ns" in str(value.type) and _may_have_nanoseconds(value):
            raise InputError(
                f"{place}: nanoseconds, which Python's times do not hold; write microseconds"
            )
        try:
            return value.as_py()
        except (ValueError, OverflowError) as error:
            raise InputError(
                f"{place}: a value is beyond Python's types ({error}); write it as text"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.block.batch.schema.names)

    def __len__(self) -> int:
        return int(self.block.batch.num_columns)


def _may_have_nanoseconds(value: pyarrow.Scalar) -> bool:
    """Whether a time of nanoseconds has any, or is inside of another value, where nobody looks."""
    if value.type.num_fields:
        return True
    return bool(value.is_valid and value.value % 1000)


def parquet_batches(file: BinaryIO, name: str, rows: int) -> Iterator[pyarrow.RecordBatch]:
    """Reads a parquet file in batches of at most `rows` rows.

    The first batch is empty, for a file without rows.
    """
    import pyarrow
    import pyarrow.parquet

    # These two say nothing about the file: a kind of parquet that pyarrow lacks, and full memory.
    unable = (pyarrow.lib.ArrowNotImplementedError, pyarrow.lib.ArrowMemoryError)
    damage = (pyarrow.ArrowException, UnicodeDecodeError)
    with (
        as_input_error(damage, f"{name}: not a whole parquet file"),
        as_input_error(unable, f"{name}: pyarrow can't read this parquet file"),
    ):
        # It is read page by page. By default a whole row group is held, and many writers make the
        # file one row group.
        parquet = pyarrow.parquet.ParquetFile(file, buffer_size=65_536, pre_buffer=False)
        refuse_same_names(parquet.schema_arrow.names, name)
        yield pyarrow.RecordBatch.from_pylist([], parquet.schema_arrow)
        yield from parquet.iter_batches(batch_size=rows)


FORMATS: Mapping[str, Format] = {
    ".txt": read_text,
    ".csv": _csv,
    ".tsv": _tsv,
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".parquet": _parquet,
}


def _table(lines: Iterable[tuple[int, list[str]]], name: str) -> Iterator[tuple[int, Cells]]:
    """Makes records of (number, fields); the header comes first, and blank lines are left out."""
    header: list[str] = []
    for number, fields in lines:
        if len(fields) < 2 and not "".join(fields).strip():
            continue
        if not header:
            header = _header(fields, f"{name}:{number}")
            continue
        if len(fields) != len(header):
            raise InputError(
                f"{name}:{number}: {counted(len(fields), 'field')}, but the first line names "
                f"{len(header)}"
            )
        yield number, Cells(zip(header, fields, strict=True))


def _header(fields: Sequence[str], place: str) -> list[str]:
    """The names of columns; a column without a name gets the one that pandas gives it."""
    names = []
    for number, field_of_header in enumerate(fields):
        names.append(field_of_header.strip() or f"Unnamed: {number}")
    if len(names) == 1 and ";" in names[0]:
        raise InputError(
            f"{place}: the columns seem to be separated by semicolons; separate them by commas "
            "(.csv) or tabs (.tsv)"
        )
    refuse_same_names(names, place)
    return names


def refuse_same_names(names: Sequence[str], place: str) -> None:
    """Raises `InputError` if two columns of a table have the same name."""
    if len(set(names)) < len(names):
        name = max(names, key=names.count)
        raise InputError(f"{place}: two columns have the same name, {name!r}; rename one of them")


def decoded_lines(file: BinaryIO, name: str) -> Iterator[str]:
    """The decoded lines with their line ends; invalid lines are refused."""
    number = 0
    text = TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")
    try:
        while line := text.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise InputError(
                    f"{name}:{number}: a line of more than {LONGEST_LINE:,} characters, the limit"
                )
            if "\0" in line:
                raise InputError(
                    f"{name}:{number}: a NUL byte: binary, or UTF-16; that "
                    f"{_to_utf8('utf-16', name)}"
                )
            if not line.isascii():
                _refuse_invalid(line, name, number)
            yield line
    finally:
        # The stream is not closed with its wrapper. It may be closed already, a ValueError.
        with suppress(ValueError):
            text.detach()
    if not number:
        raise InputError(f"{name}: empty")


def _refuse_invalid(line: str, name: str, number: int) -> None:
    """Raises `InputError` for a line with bytes that are not UTF-8: it holds them as surrogates."""
    try:
        line.encode()
    except UnicodeEncodeError as error:
        byte_number = len(line[: error.start].encode()) + 1
        byte = ord(line[error.start]) - 0xDC00
        raise InputError(
            f"{name}:{number}: byte {byte_number} of the line, 0x{byte:02x}, is not UTF-8; "
            f"latin-1 {_to_utf8('latin-1', name)}"
        ) from None


def _to_utf8(encoding: str, name: str) -> str:
    """The command that writes a file anew in UTF-8, under another name with the same ending."""
    convert = f"iconv -f {encoding} -t utf-8"
    if name == STDIN_NAME:
        return f"becomes UTF-8 by {convert}"
    file = Path(name)
    command = f"{convert} {shlex.quote(name)}"
    if file.suffix.lower() == ".gz":
        command = f"gunzip -c {shlex.quote(name)} | {convert}"
        file = file.with_suffix("")
    new = file.with_name(f"{file.stem}-utf8{file.suffix}")
    return f"becomes UTF-8 by {command} > {shlex.quote(str(new))}"


def name_classes(
    source: str, records: Records, classes: Mapping[str, Sequence[str]] | None = None
) -> Records:
    """Gives the names of classes in the place of their numbers, where a table has class columns.

    Records without a class, which is -1 or no value, are left out and counted in a warning.
    `classes` has the names for each class column. Without it, the table's own metadata is read.
    """
    first = next(records, None)
    if first is None:
        return
    if classes is None:
        classes = _classes_of(first[1])
    if not classes:
        yield first
        yield from records
        return
    count = 0
    left_out = 0
    for number, record in chain([first], records):
        count += 1
        if any(_has_no_class(record[column]) for column in classes):
            left_out += 1
        else:
            place = f"{source}:{number}"
            names = {column: _name(record[column], classes, column, place) for column in classes}
            # A view, because a row of a table converts no more values than are asked for.
            yield number, ChainMap[str, object](names, cast(dict[str, object], record))
    if left_out == count:
        raise InputError(f"{source}: no row has a class label: all {count:,} have -1 or no value")
    if left_out:
        rows = counted(left_out, "row")
        logger.warning("%s: %s left out, without a class label (-1 or no value)", source, rows)


def class_columns(features: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """The names of the classes of each class column, by the features of a `datasets.Dataset`."""
    classes = {}
    for column, feature in features.items():
        if type(feature).__name__ == "ClassLabel":
            classes[column] = feature.names
    return classes


def _classes_of(record: Record) -> dict[str, Sequence[str]]:
    """The class columns of a table that `datasets` wrote: they are in the table's metadata."""
    if not isinstance(record, TableRow):
        return {}
    schema = record.block.batch.schema
    content = (schema.metadata or {}).get(b"huggingface")
    if content is None:
        return {}
    classes = {}
    # Another program may write something else there. That names no classes.
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        for column, feature in json.loads(content)["info"]["features"].items():
            if column in schema.names and feature["_type"] == "ClassLabel":
                classes[column] = feature["names"]
    return classes


def _has_no_class(value: object) -> bool:
    return value == -1 or is_missing(value)


def _name(value: object, classes: Mapping[str, Sequence[str]], column: str, place: str) -> object:
    """The name of a class; a value that is no number is the name already."""
    if not isinstance(value, Integral):
        return value
    names = classes[column]
    number = int(value)
    if not 0 <= number < len(names):
        raise InputError(f"{place}: {column} is {number}, but has {len(names)} classes, from 0")
    return names[number]

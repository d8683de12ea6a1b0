"""Reads records, {column name: value}, from files and streams, one at a time.

The table `FORMATS` has a function for each file format. It turns a binary stream into (line number, record) pairs, and
holds no more than one line, or one batch of a parquet file, so memory does not grow with the corpus.

Text is UTF-8. A line ends at a line feed, a carriage return, or both; Unicode's other line separators are part of a
sentence. Blank lines are no records, but they count as lines.
"""

from __future__ import annotations

import csv
import gzip
import json
import logging
import re
import shlex
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, cast

from isotune.bundled import MODEL_FILES
from isotune.data.rows import Cells, Records
from isotune.errors import InputError, telling

if TYPE_CHECKING:
    import pyarrow

logger = logging.getLogger(__name__)

Format: TypeAlias = Callable[[BinaryIO, str], Records]  # (stream, its name for error messages)

LONGEST_LINE = 1_000_000  # characters; a longer line is no sentence, but a file without line ends
QUOTED = re.compile(r'"([^"]|"")*"')  # a field in quotes


@dataclass(frozen=True)
class Opened:
    """A source that was found, before its records are read."""

    place: str  # the file, or the place on the hub
    records: Records
    commits: Mapping[str, str] = field(
        default_factory=dict
    )  # place on the hub -> the commit that is read


def read_file(path: Path) -> Records:
    """The records of a file, in the format that its name ends with. The file is opened with the first record."""
    if any((path / file).exists() for file in MODEL_FILES):
        raise InputError(
            f"{path}: this is a model, and text is needed here; isotune train takes the model as --model, other "
            "commands take it before the text"
        )
    if path.is_dir():
        raise InputError(f"{path}: a folder; name its files with a pattern, such as '{path}/*.txt'")
    read = format_of(path)

    def stream() -> Records:
        with opened(path) as file:
            yield from read(file, str(path))

    return stream()


def format_of(path: Path) -> Format:
    """The function that reads files with this name's suffix; an InputError if the suffix is unknown."""
    compressed = path.suffix.lower() == ".gz"
    suffix = Path(path.stem if compressed else path.name).suffix.lower()
    if suffix not in FORMATS or (compressed and suffix == ".parquet"):
        *line_formats, parquet = FORMATS
        known = f"{', '.join(line_formats)}, each also with .gz, and {parquet}"
        to_text = "pdftotext {}" if suffix == ".pdf" else "pandoc {} -t plain --wrap=none -o {}.txt"
        way = to_text.format(shlex.quote(str(path)), shlex.quote(path.stem))
        raise InputError(
            f"{path}: unknown format; known are {known}; a document becomes text by {way}"
        )
    return FORMATS[suffix]


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Opens a file as a binary stream, a .gz uncompressed; an error of reading in the block becomes one line too."""
    damaged = telling((EOFError, zlib.error, gzip.BadGzipFile), f"{path}: not a whole gzip file")
    read = gzip.open if path.suffix.lower() == ".gz" else open
    with telling(OSError, f"{path}: can't be read"), damaged, read(path, "rb") as file:
        yield cast(BinaryIO, file)


def read_text(file: BinaryIO, name: str) -> Records:
    """Reads one sentence a line, as the column "sentence"."""
    have_tabs = set()
    for number, line in enumerate(decoded_lines(file, name), 1):
        if line.strip():
            have_tabs.add("\t" in line)
            yield number, {"sentence": line.rstrip("\r\n")}
    if have_tabs == {True}:
        logger.warning(
            "%s: each line has tabs, and was read as one sentence; name a table .tsv", name
        )


def _csv(file: BinaryIO, name: str) -> Records:
    # The limit is the process's. It is only ever raised, so that no reader in another thread fails.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    lines = decoded_lines(file, name)
    first = next(lines)
    excel = re.fullmatch(r'"?sep=(.)"?\s*', first)
    reader = csv.reader(
        lines if excel else chain([first], lines), delimiter=excel[1] if excel else ",", strict=True
    )
    try:
        yield from _table(((reader.line_num + bool(excel), cells) for cells in reader), name)
    except csv.Error as error:
        place = f"{name}:{reader.line_num + bool(excel)}"
        raise InputError(f"{place}: not valid CSV ({error}); maybe a quote is left open") from None


def _tsv(file: BinaryIO, name: str) -> Records:
    """Reads fields between tabs; a quote is a character like any other, as in all STS and GLUE files."""
    lines = enumerate(decoded_lines(file, name), 1)
    quoted = set()  # True for a cell as only a program that quotes fields writes it, None for one that it never writes
    for number, record in _table(
        ((number, line.rstrip("\r\n").split("\t")) for number, line in lines), name
    ):
        cells = [cell for cell in map(str, record.values()) if cell.startswith('"')]
        quoted |= {'""' in cell[1:-1] if QUOTED.fullmatch(cell) else None for cell in cells}
        yield number, record
    if True in quoted and None not in quoted:
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
            raise InputError(
                f"{name}:{number}: not valid JSON ({getattr(error, 'msg', error)})"
            ) from None
        if not isinstance(record, dict):
            raise InputError(f"{name}:{number}: a JSON object is needed, not {line.strip():.50}")
        yield number, record


def _object(fields: list[tuple[str, object]]) -> dict[str, object]:
    if len(names := dict(fields)) < len(fields):
        raise ValueError("an object has two fields of the same name")
    return names


def _parquet(file: BinaryIO, name: str) -> Records:
    done = 0
    for batch in parquet_batches(file, name, 1000):
        yield from (
            (done + row + 1, _ParquetRow(batch, row, f"{name}:{done + row + 1}"))
            for row in range(len(batch))
        )
        done += len(batch)


@dataclass(frozen=True, eq=False)
class _ParquetRow(Mapping[str, object]):
    """A row of a batch; a value becomes one of Python's when somebody asks for it."""

    batch: pyarrow.RecordBatch
    row: int
    place: str

    def __getitem__(self, name: str) -> object:
        value, place = self.batch.column(name)[self.row], f"{self.place}: column {name!r}"
        if "[ns" in str(value.type) and (
            value.type.num_fields or (value.is_valid and value.value % 1000)
        ):
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
        return iter(self.batch.schema.names)

    def __len__(self) -> int:
        return int(self.batch.num_columns)


def parquet_batches(file: BinaryIO, name: str, rows: int) -> Iterator[pyarrow.RecordBatch]:
    """Reads a parquet file in batches of at most so many rows; the first batch is empty, for a file without rows."""
    import pyarrow
    import pyarrow.parquet

    with telling((pyarrow.ArrowException, UnicodeDecodeError), f"{name}: not a whole parquet file"):
        # Read page by page: by default a whole row group is held, and many writers make the file one row group.
        parquet = pyarrow.parquet.ParquetFile(file, buffer_size=65_536, pre_buffer=False)
        _refuse_same_names(parquet.schema_arrow.names, name)
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
    filled = (
        (number, fields) for number, fields in lines if len(fields) > 1 or "".join(fields).strip()
    )
    number, fields = next(filled, (0, []))
    header = [
        field.strip() or f"Unnamed: {place}" for place, field in enumerate(fields)
    ]  # as pandas names them
    if len(header) == 1 and ";" in header[0]:
        raise InputError(
            f"{name}:{number}: the columns seem to be separated by semicolons; separate them by commas (.csv) or tabs "
            "(.tsv)"
        )
    _refuse_same_names(header, f"{name}:{number}")
    for number, fields in filled:
        if len(fields) != len(header):
            raise InputError(
                f"{name}:{number}: {len(fields)} fields, but the first line names {len(header)}"
            )
        yield number, Cells(zip(header, fields, strict=True))


def _refuse_same_names(names: Sequence[str], place: str) -> None:
    if len(set(names)) < len(names):
        name = max(names, key=names.count)
        raise InputError(f"{place}: two columns have the same name, {name!r}; rename one of them")


def decoded_lines(file: BinaryIO, name: str) -> Iterator[str]:
    """The decoded lines with their line ends; invalid lines are refused."""
    number, convert = 0, f"becomes UTF-8 by iconv -f {{}} -t utf-8 {shlex.quote(name)} > new.txt"
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
                    f"{name}:{number}: a NUL byte: binary, or UTF-16; that {convert.format('utf-16')}"
                )
            try:
                line.isascii() or line.encode()
            except UnicodeEncodeError as error:
                byte = len(line[: error.start].encode()) + 1
                place = f"{name}:{number}: byte {byte} of the line, 0x{ord(line[error.start]) - 0xDC00:02x},"
                raise InputError(
                    f"{place} is not UTF-8; latin-1 {convert.format('latin-1')}"
                ) from None
            yield line
    finally:
        with suppress(ValueError):  # the file is closed already
            text.detach()  # so that the file is not closed with it
    if not number:
        raise InputError(f"{name}: empty")

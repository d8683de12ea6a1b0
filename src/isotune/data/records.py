"""Reads records, {column name: value}, from files and streams, one at a time.

The table `FORMATS` has a function for each file format. It turns a binary stream into (line number, record) pairs, and
holds no more than one line, or one batch of a parquet file, so memory does not grow with the corpus.

Text is UTF-8. A line ends at a line feed only; Unicode's other line separators are part of a sentence. Blank lines are
no records, but they count as lines.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, cast

from isotune.bundled import MODEL_FILES
from isotune.data.rows import Records
from isotune.errors import InputError

if TYPE_CHECKING:
    import pyarrow

Format: TypeAlias = Callable[[BinaryIO, str], Records]  # (stream, its name for error messages)

LONGEST_LINE = 1_000_000  # bytes; a longer line is no sentence, but a file without line feeds


@dataclass(frozen=True)
class Opened:
    """A source that was found, before its records are read."""

    place: str  # the file, or the place on the hub
    records: Records
    commits: Mapping[str, str] = field(default_factory=dict)  # place on the hub -> the commit that is read


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
        raise InputError(f"{path}: unknown format; known are {known}")
    return FORMATS[suffix]


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Opens a file as a binary stream; a file whose name ends in .gz is uncompressed.

    An error of reading inside the `with` block becomes one line too.
    """
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield cast(BinaryIO, file)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: not a whole gzip file ({error})") from None
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror or error})") from None


def read_text(file: BinaryIO, name: str) -> Records:
    """Reads one sentence a line, as the column "sentence"."""
    for number, line in enumerate(decoded_lines(file, name), 1):
        if line.strip():
            yield number, {"sentence": line.rstrip("\r\n")}


def _csv(file: BinaryIO, name: str) -> Records:
    reader = csv.reader(decoded_lines(file, name), strict=True)
    try:
        yield from _table(((reader.line_num, cells) for cells in reader if cells), name)
    except csv.Error as error:  # also a quote left open, at the csv module's limit of 131,072 characters
        raise InputError(f"{name}:{reader.line_num}: not valid CSV ({error})") from None


def _tsv(file: BinaryIO, name: str) -> Records:
    """Reads fields between tabs; a quote is a character like any other, as in all STS and GLUE files."""
    lines = ((number, line.rstrip("\r\n")) for number, line in enumerate(decoded_lines(file, name), 1))
    return _table(((number, line.split("\t")) for number, line in lines if line), name)


def _jsonl(file: BinaryIO, name: str) -> Records:
    for number, line in enumerate(decoded_lines(file, name), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{name}:{number}: not valid JSON ({getattr(error, 'msg', error)})") from None
        if not isinstance(record, dict):
            raise InputError(f"{name}:{number}: a JSON object is needed, not {type(record).__name__}")
        yield number, record


def _parquet(file: BinaryIO, name: str) -> Records:
    batches = parquet_batches(file, name, 1000)
    try:
        yield from enumerate((record for batch in batches for record in batch.to_pylist()), 1)
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not a whole parquet file ({error})") from None


def parquet_batches(file: BinaryIO, name: str, rows: int) -> Iterator[pyarrow.RecordBatch]:
    """Reads a parquet file in batches of at most so many rows; the first batch is empty, for a file without rows."""
    import pyarrow
    import pyarrow.parquet

    try:
        # Read page by page: by default a whole row group is held, and many writers make the file one row group.
        parquet = pyarrow.parquet.ParquetFile(file, buffer_size=65_536, pre_buffer=False)
        yield pyarrow.RecordBatch.from_pylist([], parquet.schema_arrow)
        yield from parquet.iter_batches(batch_size=rows)
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(f"{name}: not a whole parquet file ({reason})") from None


FORMATS: Mapping[str, Format] = MappingProxyType(
    {".txt": read_text, ".csv": _csv, ".tsv": _tsv, ".jsonl": _jsonl, ".parquet": _parquet}
)


def _table(lines: Iterator[tuple[int, list[str]]], name: str) -> Records:
    """Records from lines of fields; the first line names the columns."""
    number, fields = next(lines, (0, []))
    header = [field.strip() for field in fields]
    if len(header) == 1 and ";" in header[0]:
        raise InputError(
            f"{name}:{number}: the columns seem to be separated by semicolons; separate them by commas (.csv) or tabs "
            "(.tsv)"
        )
    if len(set(header)) < len(header):
        raise InputError(f"{name}:{number}: two columns have the same name; the first line must name the columns")
    for number, fields in lines:
        if len(fields) != len(header):
            raise InputError(f"{name}:{number}: {len(fields)} fields, but the first line names {len(header)}")
        yield number, dict(zip(header, fields, strict=True))


def decoded_lines(file: BinaryIO, name: str) -> Iterator[str]:
    """The decoded lines with their line ends; invalid lines are refused."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise InputError(f"{name}:{number}: a line of more than {LONGEST_LINE:,} bytes, the limit")
        if b"\0" in line:
            raise InputError(f"{name}:{number}: a NUL byte: binary, or text that isn't UTF-8")
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            place = f"byte {error.start + 1} of the line, 0x{line[error.start]:02x},"
            raise InputError(f"{name}:{number}: {place} is not UTF-8") from None
        yield text
    if not number:
        raise InputError(f"{name}: empty")

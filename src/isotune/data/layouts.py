"""Published files whose names don't tell their layout: SentEval's archive, and CS224N's tables.

A function for each layout takes a file and the name of the part of the file that is a split, and
gives records. In an archive (.tar or .zip) a part is a path, which may also stand below a folder.
SentEval's readers (senteval/*.py) say how its files are read, and which of them are ISO 8859-1.
"""

import csv
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Self

from isotune.data.records import LONGEST_LINE, decoded_lines, opened
from isotune.data.rows import Records
from isotune.errors import InputError, as_input_error

LATIN = "iso-8859-1"

LARGEST = 100_000_000
"""Bytes of the files that are read of an archive. A small archive can unpack to any size."""


def read_layout(layout: str, path: Path, part: str) -> Records:
    """The records of a part of a published file."""
    problem = f"{path}: {part}: it can't be read as the published file"
    advice = f"; remove {path.resolve()}, to fetch it again"
    # A file of another content may raise an error of almost any class.
    with (
        as_input_error(Exception, problem, advice),
        as_input_error(OSError, f"{path}: it can't be read"),
    ):
        yield from LAYOUTS[layout](path, part)


def _sts(path: Path, folder: str) -> Records:
    """A similarity task: STS.input.SUBSET.txt has pairs, and STS.gs.SUBSET.txt their scores.

    A pair without a score has a blank line there.
    """
    pairs_of_file = _files(path, f"{folder}/STS.input.*.txt")
    scores_of_file = _files(path, f"{folder}/STS.gs.*.txt")
    number = 0
    for name, pairs in pairs_of_file.items():
        subset = name.rpartition("STS.input.")[2].removesuffix(".txt")
        scores = scores_of_file[name.replace("STS.input.", "STS.gs.")]
        for pair, score in zip(pairs, scores, strict=True):
            number += 1
            sentence1, sentence2, *_ = pair.split("\t")
            record = {
                "subset": subset,
                "sentence1": sentence1,
                "sentence2": sentence2,
                "score": score.strip(),
            }
            yield number, record


def _stsb(path: Path, file: str) -> Records:
    """STS-B: genre, subset, year, number, score, both sentences and perhaps their sources."""
    for number, line in _lines(path, file):
        _, subset, _, _, score, sentence1, sentence2, *_ = line.split("\t")
        record = {"subset": subset, "sentence1": sentence1, "sentence2": sentence2, "score": score}
        yield number, record


def _table(path: Path, file: str) -> Records:
    """SICK and MRPC: tab-separated fields with a header."""
    # The names of MRPC's columns.
    names = {"Quality": "label", "#1 String": "sentence1", "#2 String": "sentence2"}
    lines = _lines(path, file)
    _, first = next(lines)
    header = [names.get(name, name) for name in first.removeprefix("\ufeff").split("\t")]
    for number, line in lines:
        if line.strip():
            yield number, dict(zip(header, line.split("\t"), strict=True))


def _polarity(path: Path, folder: str) -> Records:
    """Two files of sentences, one for each class."""
    labels = {"pos": "1", "neg": "0", "subjective": "1", "objective": "0"}
    number = 0
    for ending, label in labels.items():
        for sentences in _files(path, f"{folder}/*.{ending}", LATIN).values():
            for sentence in sentences:
                number += 1
                yield number, {"sentence": sentence, "label": label}


def _sst(path: Path, file: str) -> Records:
    for number, line in _lines(path, file):
        sentence, label = line.split("\t")
        yield number, {"sentence": sentence, "label": label}


def _trec(path: Path, file: str) -> Records:
    """TREC: "COARSE:fine question". The subset is the coarse class."""
    for number, line in _lines(path, file, LATIN):
        label, _, sentence = line.partition(" ")
        yield number, {"subset": label.partition(":")[0], "sentence": sentence, "label": label}


def _cs224n(path: Path, _: str) -> Records:
    """CS224N's minBERT project: a .csv with tabs for commas. A broken line has fewer fields."""
    names = {"similarity": "score", "is_duplicate": "label", "sentiment": "label"}
    with opened(path) as file:
        rows = csv.DictReader(decoded_lines(file, str(path)), delimiter="\t", restval="")
        for number, row in enumerate(rows, 1):
            record = {}
            for column, text in row.items():
                if column:
                    record[names.get(column, column)] = text
            yield number, record


_FUNCTIONS = (_sts, _stsb, _table, _polarity, _sst, _trec, _cs224n)
LAYOUTS: Mapping[str, Callable[[Path, str], Records]] = {
    read.__name__[1:]: read for read in _FUNCTIONS
}


def _lines(path: Path, file: str, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    files = _files(path, file, encoding)
    if len(files) != 1:
        raise InputError(f"{path}: {len(files) or 'no'} files {file} in it")
    (lines,) = files.values()
    return enumerate(lines, 1)


class _Member(tarfile.TarInfo):
    """A member of an archive.

    A name longer than a line is refused, because tarfile reads a name of any size.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if not member.isreg() and member.size > LONGEST_LINE:
            raise tarfile.ReadError(f"a name of {member.size:,} bytes")
        return member


def _files(path: Path, pattern: str, encoding: str = "utf-8") -> dict[str, list[str]]:
    """The lines of each file of an archive that matches the pattern, by name."""
    read = _read_tar
    if zipfile.is_zipfile(path):
        read = _read_zip
    lines_of_file = {}
    for name, content in read(path, pattern).items():
        # A line ends at a line feed only. The last line of scores may be blank.
        text = content.decode(encoding).removesuffix("\n")
        lines_of_file[name] = [line.rstrip("\r") for line in text.split("\n")]
    return lines_of_file


def _read_zip(path: Path, pattern: str) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
        return {name: archive.read(name) for name in _matching(path, pattern, sizes)}


def _read_tar(path: Path, pattern: str) -> dict[str, bytes]:
    contents = {}
    with tarfile.open(path, tarinfo=_Member) as archive:
        sizes = {member.name: member.size for member in archive if member.isfile()}
        for name in _matching(path, pattern, sizes):
            file = archive.extractfile(name)
            if file:
                contents[name] = file.read()
    return contents


def _matching(path: Path, pattern: str, sizes: Mapping[str, int]) -> list[str]:
    """The names that match the pattern, also below a folder; refuses files that are too large."""
    names = [name for name in sorted(sizes) if fnmatchcase(f"/{name}", f"*/{pattern}")]
    size = sum(sizes[name] for name in names)
    if size > LARGEST:
        raise InputError(
            f"{path}: its files {pattern} have {size:,} bytes; the limit is {LARGEST:,}"
        )
    return names

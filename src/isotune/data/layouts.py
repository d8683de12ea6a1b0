"""Published files whose names don't tell their layout: SentEval's archive, and the tables of CS224N's project.

`LAYOUTS` has a function for each layout. A function takes a file and the name of the part of the file that is a split,
and gives records. In an archive (.tar or .zip) a part is a path, which may also stand below a folder. SentEval's
readers (senteval/*.py) say how its files are read, and which of them are ISO 8859-1.
"""

from __future__ import annotations

import csv
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Self

from isotune.data.records import LONGEST_LINE, decoded_lines, opened
from isotune.data.rows import Records
from isotune.errors import InputError

LATIN = "iso-8859-1"
LARGEST = 100_000_000  # bytes of the files that are read of an archive; a small archive can unpack to any size


def _sts(path: Path, folder: str) -> Records:
    """A similarity task: STS.input.SUBSET.txt has pairs, and STS.gs.SUBSET.txt a score or a blank line for each."""
    inputs, scores = (_members(path, f"{folder}/STS.{kind}.*.txt") for kind in ("input", "gs"))
    number = 0
    for name, pairs in inputs.items():
        gold = scores.get(name.replace("STS.input.", "STS.gs."), [])
        if len(gold) != len(pairs):
            raise InputError(f"{path}: {name} has {len(pairs)} pairs, but {len(gold)} lines of scores")
        subset = name.rpartition("STS.input.")[2].removesuffix(".txt")
        for line, (pair, score) in enumerate(zip(pairs, gold, strict=True), 1):
            number += 1
            sentence1, sentence2, *_ = _fields(f"{path}: {name}:{line}", pair, 2, more=True)
            yield number, {"subset": subset, "sentence1": sentence1, "sentence2": sentence2, "score": score.strip()}


def _stsb(path: Path, file: str) -> Records:
    """STS-B: a line is genre, subset, year, number, score, both sentences and perhaps their sources, between tabs."""
    for number, line in _lines(path, file):
        _, subset, _, _, score, sentence1, sentence2, *_ = _fields(f"{path}: {file}:{number}", line, 7, more=True)
        yield number, {"subset": subset, "sentence1": sentence1, "sentence2": sentence2, "score": score}


def _table(path: Path, file: str) -> Records:
    """SICK and MRPC: tab-separated fields with a header."""
    names = {"Quality": "label", "#1 String": "sentence1", "#2 String": "sentence2"}  # MRPC's
    lines = _lines(path, file)
    header = [names.get(name, name) for name in next(lines)[1].removeprefix("\ufeff").split("\t")]
    for number, line in lines:
        if line.strip():
            yield number, dict(zip(header, _fields(f"{path}: {file}:{number}", line, len(header)), strict=True))


def _polarity(path: Path, folder: str) -> Records:
    """Two files of sentences, whose endings tell the class."""
    number = 0
    for ending, label in (("pos", "1"), ("neg", "0"), ("subjective", "1"), ("objective", "0")):
        for sentences in _members(path, f"{folder}/*.{ending}", LATIN).values():
            for sentence in sentences:
                number += 1
                yield number, {"sentence": sentence, "label": label}


def _sst(path: Path, file: str) -> Records:
    """SST-2: a sentence, a tab and the class."""
    for number, line in _lines(path, file):
        sentence, label = _fields(f"{path}: {file}:{number}", line, 2)
        yield number, {"sentence": sentence, "label": label}


def _trec(path: Path, file: str) -> Records:
    """TREC: "COARSE:fine question". The subset is the coarse class."""
    for number, line in _lines(path, file, LATIN):
        label, _, sentence = line.partition(" ")
        yield number, {"subset": label.partition(":")[0], "sentence": sentence, "label": label}


def _cs224n(path: Path, _: str) -> Records:
    """CS224N's minBERT project: a .csv with tabs in place of commas. A broken line has fewer fields."""
    names = {"similarity": "score", "is_duplicate": "label", "sentiment": "label"}
    try:
        with opened(path) as file:
            records = csv.DictReader(decoded_lines(file, str(path)), delimiter="\t", restval="")
            for number, record in enumerate(records, 1):
                yield number, {names.get(column, column): text for column, text in record.items() if column}
    except csv.Error as error:
        raise InputError(f"{path}: not a whole table ({error})") from None


LAYOUTS: Mapping[str, Callable[[Path, str], Records]] = MappingProxyType(
    {
        "sts": _sts,
        "stsb": _stsb,
        "table": _table,
        "polarity": _polarity,
        "sst": _sst,
        "trec": _trec,
        "cs224n": _cs224n,
    }
)


def _fields(place: str, line: str, count: int, *, more: bool = False) -> list[str]:
    """The fields of a line, between tabs; with `more`, there may be more of them than `count`.

    Raises:
        InputError: the line has another number of fields.
    """
    fields = line.split("\t")
    if len(fields) < count or (len(fields) > count and not more):
        raise InputError(f"{place}: {len(fields)} fields between tabs, not {count}{' or more' if more else ''}")
    return fields


def _lines(path: Path, file: str, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """The numbered lines of an archive's file.

    Raises:
        InputError: the archive doesn't have the file.
    """
    members = _members(path, file, encoding)
    if len(members) != 1:
        raise InputError(f"{path}: {len(members) or 'no'} files {file} in it")
    (lines,) = members.values()
    return enumerate(lines, 1)


class _Member(tarfile.TarInfo):
    """A member of an archive, whose name is no longer than a line: tarfile reads a name into memory whatever its size.

    Raises:
        tarfile.ReadError: the name is longer.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if not member.isreg() and member.size > LONGEST_LINE:
            raise tarfile.ReadError(f"a name of {member.size:,} bytes")
        return member


def _members(path: Path, pattern: str, encoding: str = "utf-8") -> dict[str, list[str]]:
    """The lines of all files of an archive whose path matches a pattern, in the order of their paths."""

    def matches(name: str) -> bool:
        return fnmatchcase(name, pattern) or fnmatchcase(name, f"*/{pattern}")

    def checked(size: int) -> None:
        if size > LARGEST:
            raise InputError(f"{path}: its files {pattern} have {size:,} bytes; the limit is {LARGEST:,}")

    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                entries = [entry for entry in archive.infolist() if matches(entry.filename)]
                checked(sum(entry.file_size for entry in entries))
                contents = {entry.filename: archive.read(entry) for entry in entries}
        else:
            with tarfile.open(path, tarinfo=_Member) as tar:
                members = [member for member in tar if matches(member.name)]
                checked(sum(member.size for member in members))
                files = {member.name: tar.extractfile(member) for member in members}
                contents = {name: file.read() for name, file in files.items() if file}
        texts = {name: contents[name].decode(encoding) for name in sorted(contents)}
    except InputError:
        raise
    except Exception as error:  # a damaged archive raises errors of almost any class
        raise InputError(f"{path}: not a whole archive ({error})") from None
    # A line ends at a line feed only. The last line of scores may be blank.
    return {name: [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")] for name, text in texts.items()}

"""Published files whose names don't tell their layout: SentEval's archive, and the tables of CS224N's project.

A function for each layout takes a file and the name of the part of the file that is a split, and gives records. In an
archive (.tar or .zip) a part is a path, which may also stand below a folder. SentEval's readers (senteval/*.py) say how
its files are read, and which of them are ISO 8859-1.
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
from isotune.errors import InputError, telling

LATIN = "iso-8859-1"
LARGEST = 100_000_000  # bytes of the files that are read of an archive; a small archive can unpack to any size


def read_layout(layout: str, path: Path, part: str) -> Records:
    """The records of a part of a published file."""
    with telling(
        Exception, f"{path}: {part}: damaged, or not the published file"
    ):  # errors are of almost any class
        yield from LAYOUTS[layout](path, part)


def _sts(path: Path, folder: str) -> Records:
    """A similarity task: STS.input.SUBSET.txt has pairs, and STS.gs.SUBSET.txt a score or a blank line for each."""
    inputs, scores = (_files(path, f"{folder}/STS.{kind}.*.txt") for kind in ("input", "gs"))
    number = 0
    for name, pairs in inputs.items():
        subset = name.rpartition("STS.input.")[2].removesuffix(".txt")
        for pair, score in zip(pairs, scores[name.replace("STS.input.", "STS.gs.")], strict=True):
            number += 1
            sentence1, sentence2, *_ = pair.split("\t")
            yield (
                number,
                {
                    "subset": subset,
                    "sentence1": sentence1,
                    "sentence2": sentence2,
                    "score": score.strip(),
                },
            )


def _stsb(path: Path, file: str) -> Records:
    """STS-B: a line is genre, subset, year, number, score, both sentences and perhaps their sources, between tabs."""
    for number, line in _lines(path, file):
        _, subset, _, _, score, sentence1, sentence2, *_ = line.split("\t")
        yield (
            number,
            {"subset": subset, "sentence1": sentence1, "sentence2": sentence2, "score": score},
        )


def _table(path: Path, file: str) -> Records:
    """SICK and MRPC: tab-separated fields with a header."""
    names = {"Quality": "label", "#1 String": "sentence1", "#2 String": "sentence2"}  # MRPC's
    lines = _lines(path, file)
    header = [names.get(name, name) for name in next(lines)[1].removeprefix("\ufeff").split("\t")]
    for number, line in lines:
        if line.strip():
            yield number, dict(zip(header, line.split("\t"), strict=True))


def _polarity(path: Path, folder: str) -> Records:
    number = 0
    for ending, label in (("pos", "1"), ("neg", "0"), ("subjective", "1"), ("objective", "0")):
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
    """CS224N's minBERT project: a .csv with tabs in place of commas. A broken line has fewer fields."""
    names = {"similarity": "score", "is_duplicate": "label", "sentiment": "label"}
    with opened(path) as file:
        records = csv.DictReader(decoded_lines(file, str(path)), delimiter="\t", restval="")
        for number, record in enumerate(records, 1):
            yield (
                number,
                {names.get(column, column): text for column, text in record.items() if column},
            )


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
    """A member of an archive. A name longer than a line is refused, because tarfile reads a name of any size."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if not member.isreg() and member.size > LONGEST_LINE:
            raise tarfile.ReadError(f"a name of {member.size:,} bytes")
        return member


def _files(path: Path, pattern: str, encoding: str = "utf-8") -> dict[str, list[str]]:
    def chosen(sizes: Mapping[str, int]) -> list[str]:
        names = [
            name
            for name in sorted(sizes)
            if fnmatchcase(name, pattern) or fnmatchcase(name, f"*/{pattern}")
        ]
        if (size := sum(sizes[name] for name in names)) > LARGEST:
            raise InputError(
                f"{path}: its files {pattern} have {size:,} bytes; the limit is {LARGEST:,}"
            )
        return names

    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names = chosen({entry.filename: entry.file_size for entry in archive.infolist()})
            contents = {name: archive.read(name) for name in names}
    else:
        with tarfile.open(path, tarinfo=_Member) as tar:
            names = chosen({member.name: member.size for member in tar if member.isfile()})
            contents = {name: file.read() for name in names if (file := tar.extractfile(name))}
    # A line ends at a line feed only. The last line of scores may be blank.
    texts = {
        name: content.decode(encoding).removesuffix("\n") for name, content in contents.items()
    }
    return {name: [line.rstrip("\r") for line in text.split("\n")] for name, text in texts.items()}

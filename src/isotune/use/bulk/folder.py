"""A folder of vectors: each file of text becomes a file of vectors.

    vectors/_manifest.json        what all vectors have in common
    vectors/_ranges.json          the ranges of vectors as bytes
    vectors/part-07.parquet       a file of vectors, whole or not there

Readers of a folder of parquet files skip names that begin with a dot or an underscore.

A file of vectors gets the time of its text; in an object store, where files have the time of their
writing, it is newer than its text. The same command, given again, makes the files that are not
there or have another time. Processes that share the work have a shard of the files each, and know
nothing of each other: each puts whole files into place.
"""

import glob
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from isotune.data import DATASETS
from isotune.data.records import format_of
from isotune.data.sources import files_of
from isotune.encoder.encoder import Encoder
from isotune.encoder.stream import Advance
from isotune.errors import InputError
from isotune.files import read_json
from isotune.kernels import Precision, default_device
from isotune.kernels.precision import resolved
from isotune.use.bulk.places import Place
from isotune.use.bulk.settings import Settings
from isotune.use.bulk.vector_file import Encoded, encode_rows
from isotune.use.quantization import NumberFormat, Ranges

MANIFEST = "_manifest.json"
# The ranges of vectors as bytes.
RANGES = "_ranges.json"
# The ending of the files of vectors.
SUFFIX = ".parquet"
# The nanoseconds by which file systems round times.
CLOCK = 10_000_000
# The name of a file that is hidden, or in a hidden folder.
HIDDEN = re.compile(r"(^|/)[._]")


class Part(NamedTuple):
    """A file of text that becomes a file of vectors."""

    source: Place
    file: str
    """The file's name below the source, such as "2024/07.jsonl"."""
    time: int
    """The time of the file's last change, in nanoseconds."""
    name: str
    """The name of the file of vectors inside the folder, such as "2024/07.parquet"."""

    def __str__(self) -> str:
        return self.source.name


class Outcome(NamedTuple):
    """What a folder holds in the end."""

    parts: int
    """All files of text."""
    made: int
    """The files of vectors that this command made."""
    rows: int
    """The rows of these files."""
    left: int = 0
    """The files of vectors that are not there yet."""
    cut: int = 0
    """The texts that were cut to the encoder's limit."""


def encode_files(
    encoder: str,
    sources: Sequence[str],
    out: str | Path,
    *,
    shard: str = "1/1",
    advance: Advance | None = None,
    **settings: Any,
) -> Outcome:
    """Encodes the files of a shard that are not done.

    Sources are files, patterns and folders; these and `out` may be in an object store, such as
    s3://bucket/texts. A file that can't be read is named at the end. A folder that is there was
    made by the same `settings`: the fields of `Settings`. Of eight processes that share the
    files, the second has the `shard` "2/8".
    """
    parts = find_parts(sources)
    parts_of_shard = _of_shard(parts, shard)
    how = Settings(encoder, **settings)
    how = replace(how, precision=resolved(how.precision, default_device()))
    folder, loaded = open_folder(Place.of(out), how)
    made = []
    problems = []
    for part in folder.left(parts_of_shard):
        try:
            made.append(folder.encode(part, loaded, advance))
        except InputError as error:
            problems.append(str(error))
    tell(problems, len(parts_of_shard))
    return folder.outcome(parts, made)


def tell(problems: Sequence[str], parts: int) -> None:
    """Raises the first problem, if there is one."""
    if problems:
        raise InputError(
            f"{problems[0]} ({len(problems)} of {parts} parts can't be encoded; the others are "
            "done)"
        )


def find_parts(sources: Sequence[str]) -> list[Part]:
    """The parts of all sources, in their order.

    A file is named after its source. Files that match a pattern keep their folders below the
    pattern's fixed beginning, so `logs/**/*.txt` gives `2024/part-07.parquet` for
    `logs/2024/part-07.txt`. Files of a folder keep the folders in it; those whose names, or whose
    folders' names, begin with a dot or an underscore are no parts.
    """
    if not sources:
        raise InputError("no files: name at least one file of text")
    parts: dict[str, Part] = {}
    for source in sources:
        if source == "-" or source.startswith("hub:") or source.partition(":")[0] in DATASETS:
            raise InputError(
                f"{source}: a folder of vectors gets a file for each file; name files or a pattern"
            )
        for part in _parts_of(source):
            other = parts.setdefault(part.name, part).source
            if (other.system, other.path) != (part.source.system, part.source.path):
                raise InputError(
                    f"{other.name} and {part.source.name}: both become {part.name}; make two "
                    "folders"
                )
    return list(parts.values())


def _parts_of(source: str) -> Iterator[Part]:
    """The parts of a source."""
    if "://" in source or os.path.isdir(source):
        yield from _parts_of_folder(source)
        return
    # The folders of the source before the first that has a wildcard.
    fixed = Path(*takewhile(lambda name: not glob.has_magic(name), Path(source).parts[:-1]))
    for path in files_of(source):
        place = Place.of(path)
        # The file may go meanwhile.
        time = place.files().get("", 0)
        yield _part(place, path.relative_to(fixed).as_posix(), time)


def _parts_of_folder(source: str) -> Iterator[Part]:
    """The parts of a folder, or of a file or folder in an object store."""
    folder = Place.of(source)
    times = folder.files()
    names = sorted(name for name in times if not HIDDEN.search(name))
    if not names:
        raise InputError(f"{folder.name}: no file is there")
    for name in names:
        yield _part(folder.below(name), name or os.path.basename(folder.path), times[name])


def _part(place: Place, file: str, time: int) -> Part:
    """The part of a file; refuses a file of an unknown format."""
    format_of(Path(file))
    stem = PurePath(file)
    if file.lower().endswith(".gz"):
        stem = stem.with_suffix("")
    return Part(place, file, time, stem.with_suffix(SUFFIX).as_posix())


def _of_shard(parts: Sequence[Part], shard: str) -> Sequence[Part]:
    """The parts of a shard, such as 2/8."""
    number = 0
    count = 0
    match = re.fullmatch("([0-9]{1,9})/([0-9]{1,9})", shard)
    if match:
        number = int(match[1])
        count = int(match[2])
    if not 1 <= number <= count:
        raise InputError(
            f"shard {shard}: write NUMBER/COUNT; the shards of 8 are 1/8, 2/8 and so on to 8/8"
        )
    return parts[number - 1 :: count]


@dataclass(frozen=True)
class VectorFolder:
    """A folder of vectors, and how they are made. Another process gets the same from its pickle."""

    place: Place
    encoder: str
    precision: Precision | None
    normalize: bool
    columns: Mapping[str, str]
    fingerprint: str
    dimension: int
    number_format: NumberFormat

    @property
    def manifest(self) -> Place:
        """The file that says how the vectors are made."""
        return self.place.below(MANIFEST)

    def settings(self) -> dict[str, Any]:
        """What the manifest says. The version and the encoder's name are for people."""
        return {
            "isotune": version("isotune"),
            "encoder": self.encoder,
            "fingerprint": self.fingerprint,
            "dimension": self.dimension,
            "precision": self.precision or "as saved",
            "normalize": self.normalize,
            "columns": self.columns,
            "vectors": self.number_format.kind,
        }

    def open(self) -> None:
        """Makes the folder with its manifest; a folder with vectors has to have the same settings.

        A folder without vectors, which a failed command leaves, gets a new manifest.
        """
        files = self.place.files()
        if all(HIDDEN.search(name) for name in files):
            with self.manifest.atomic_write() as file:
                file.write_text(json.dumps(self.settings(), indent=2) + "\n", "utf-8", newline="\n")
            self._write_ranges()
        elif MANIFEST not in files:
            raise InputError(
                f"{self.place.name}: it has files that isotune encode did not make; name a new "
                "folder"
            )
        self.check()

    def _write_ranges(self) -> None:
        """Writes the ranges of bytes beside the manifest."""
        ranges = self.number_format.ranges
        if ranges is not None:
            with self.place.below(RANGES).atomic_write() as file:
                ranges.save(file)

    def _check_ranges(self) -> None:
        """Refuses other ranges than those of the folder."""
        ranges = self.number_format.ranges
        if ranges is None:
            return
        with self.place.below(RANGES).read() as file:
            theirs = Ranges.read(file)
        if theirs != ranges:
            raise InputError(
                f"{self.place.name}: its vectors were made with other ranges; give {RANGES} of "
                "that folder, or name another folder"
            )

    def check(self) -> None:
        """Refuses a folder whose manifest has other settings."""
        with self.manifest.read() as file:
            theirs = read_json(file)
        settings = self.settings()
        name = self.place.name
        if theirs.get("fingerprint") != self.fingerprint:
            other = theirs.get("encoder")
            dimension = theirs.get("dimension")
            if other == self.encoder and dimension != self.dimension:
                raise InputError(
                    f"{name}: its vectors have {dimension} features, not {self.dimension}; name "
                    "another folder or give the same dimensions"
                )
            raise InputError(
                f"{name}: it holds vectors of another encoder, {other}; name another folder"
            )
        # Older folders say nothing of it.
        theirs.setdefault("vectors", "float32")
        for option in sorted(settings.keys() - {"isotune", "encoder"}):
            if theirs.get(option) != settings[option]:
                raise InputError(
                    f"{name}: its vectors were made with {option} {theirs.get(option)}, not "
                    f"{settings[option]}; name another folder or give the same options"
                )
        self._check_ranges()

    def left(self, parts: Sequence[Part]) -> list[Part]:
        """The parts whose file of vectors is not there, or is not of the text as it is."""
        for part in parts:
            if part.source.path.startswith(f"{self.place.path}/"):
                raise InputError(
                    f"{part.source.name}: it is in {self.place.name}, the folder of the vectors; "
                    "name sources without it"
                )
        times = self.place.files()
        return [part for part in parts if not self._is_done(part, times.get(part.name))]

    def outcome(self, parts: Sequence[Part], made: Sequence[Encoded]) -> Outcome:
        """What the folder holds of all parts after a command that has made some files."""
        return Outcome(
            parts=len(parts),
            made=len(made),
            rows=sum(encoded.rows for encoded in made),
            left=len(self.left(parts)),
            cut=sum(encoded.cut for encoded in made),
        )

    def _is_done(self, part: Part, time: int | None) -> bool:
        """Whether the part's file of vectors, of this time or not there, is of the text."""
        if time is None:
            return False
        later = time - part.time
        if abs(later) < CLOCK:
            return True
        # Objects are newer than their text.
        return later > 0 and not self.place.is_local

    def encode(self, part: Part, encoder: Encoder, advance: Advance | None = None) -> Encoded:
        """Makes the file of vectors of a part.

        Until the folder has vectors, another command may give it another manifest. So it is checked
        before the part is encoded, and again before its file is put in place.
        """
        self.check()
        with part.source.read() as text, self.place.below(part.name).atomic_write() as file:
            encoded = encode_rows(
                encoder, text, file, self.columns, self.normalize, advance, self.number_format
            )
            os.utime(file, ns=(part.time, part.time))
            self.check()
        return encoded


def open_folder(place: Place, settings: Settings) -> tuple[VectorFolder, Encoder]:
    """Loads the encoder, and opens the folder of its vectors.

    Raises:
        InputError: int8 has no ranges, which all processes that share the work need to know.
    """
    if settings.vectors == "int8" and settings.ranges is None:
        raise InputError(
            "int8 vectors in a folder need ranges: encode a sample of the texts into one file as "
            "int8 first, and give the file of ranges that is written beside it"
        )
    loaded, number_format = settings.load()
    folder = VectorFolder(
        place=place,
        encoder=settings.encoder,
        precision=settings.precision,
        normalize=settings.scales,
        columns=dict(settings.columns),
        fingerprint=loaded.fingerprint(),
        dimension=loaded.dimension,
        number_format=number_format,
    )
    folder.open()
    return folder, loaded

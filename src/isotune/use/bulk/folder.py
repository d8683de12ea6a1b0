"""A folder of vectors: each file of text becomes a file of vectors.

    vectors/_manifest.json        what all vectors have in common
    vectors/part-07.parquet       a file of vectors, whole or not there

Readers of a folder of parquet files skip names that begin with a dot or an underscore.

A file of vectors gets the time of its text; in an object store, where files have the time of their writing, it is newer
than its text. The same command, given again, makes the files that are not there or have another time. Processes that
share the work have a shard of the files each, and know nothing of each other: each puts whole files into place.
"""

import glob
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from isotune.use.bulk.vector_file import encode_file

MANIFEST = "_manifest.json"
SUFFIX = ".parquet"  # of the files of vectors
CLOCK = 10_000_000  # nanoseconds by which file systems round times


class Part(NamedTuple):
    """A file of text that becomes a file of vectors."""

    source: Place
    file: str  # its name below the source, such as "2024/07.jsonl"
    time: int  # of its last change, in nanoseconds
    name: str  # of its file of vectors inside the folder, such as "2024/07.parquet"

    def __str__(self) -> str:
        return self.source.name


class Outcome(NamedTuple):
    """What a folder holds in the end."""

    parts: int  # all files of text
    made: int  # the files of vectors that this command made
    rows: int  # the rows of these
    left: int = 0  # the files of vectors that are not there yet
    cut: int = 0  # the texts that were cut to the encoder's limit


def encode_files(
    encoder: str,
    sources: Sequence[str],
    out: str | Path,
    *,
    precision: Precision | None = None,
    normalize: bool = False,
    columns: Mapping[str, str] | None = None,
    shard: str = "1/1",
    advance: Advance | None = None,
) -> Outcome:
    """Encodes the files of a shard that are not done.

    Sources are files, patterns and folders; these and `out` may be in an object store, such as s3://bucket/texts. A
    file that can't be read is named at the end. A folder that is there was made by the same options. `columns` is
    {"sentence": column}. Of eight processes that share the files, the second has the `shard` "2/8".
    """
    parts = find_parts(sources)
    mine = _of_shard(parts, shard)
    folder = VectorFolder(
        Place.of(out),
        encoder,
        resolved(precision, default_device()),
        normalize,
        dict(columns or {}),
    )
    loaded = folder.open()
    made, rows, problems = 0, 0, []
    for part in folder.left(mine):
        try:
            rows += folder.encode(part, loaded, advance)[0]
            made += 1
        except InputError as error:
            problems.append(str(error))
    tell(problems, len(mine))
    return Outcome(len(parts), made, rows, len(folder.left(parts)), loaded.seen["cut"])


def tell(problems: Sequence[str], parts: int) -> None:
    """Raises the first problem, if there is one."""
    if problems:
        raise InputError(
            f"{problems[0]} ({len(problems)} of {parts} parts can't be encoded; the others are done)"
        )


def find_parts(sources: Sequence[str]) -> list[Part]:
    """The parts of all sources, in their order.

    A file is named after its source. Files that match a pattern keep their folders below the pattern's fixed beginning,
    so `logs/**/*.txt` gives `2024/part-07.parquet` for `logs/2024/part-07.txt`. Files of a folder keep the folders in
    it; those whose names, or whose folders' names, begin with a dot or an underscore are no parts.
    """
    if not sources:
        raise InputError("no files: name at least one file of text")
    parts: dict[str, Part] = {}
    for source in sources:
        if source == "-" or source.startswith("hub:") or source.partition(":")[0] in DATASETS:
            raise InputError(
                f"{source}: a folder of vectors gets a file for each file; name files or a pattern"
            )
        for place, name, time in _found(source):
            format_of(Path(name))
            stem = (
                PurePath(name).with_suffix("") if name.lower().endswith(".gz") else PurePath(name)
            )
            part = Part(place, name, time, stem.with_suffix(SUFFIX).as_posix())
            known = parts.setdefault(part.name, part)
            if (known.source.system, known.source.path) != (place.system, place.path):
                raise InputError(
                    f"{known.source.name} and {place.name}: both become {part.name}; make two folders"
                )
    return list(parts.values())


def _found(source: str) -> Iterator[tuple[Place, str, int]]:
    """The files of a source, each with its name below the source and its time."""
    if "://" in source or os.path.isdir(source):
        folder = Place.of(source)
        names = {
            name: time for name, time in folder.files().items() if not re.search(r"(^|/)[._]", name)
        }
        if not names:
            raise InputError(f"{folder.name}: no file is there")
        for name, time in sorted(names.items()):
            yield folder.below(name), name or os.path.basename(folder.path), time
        return
    # The folders of the source before the first that has a wildcard.
    fixed = Path(*takewhile(lambda name: not glob.has_magic(name), Path(source).parts[:-1]))
    for path in files_of(source):
        place = Place.of(path)
        yield (
            place,
            path.relative_to(fixed).as_posix(),
            place.files().get("", 0),
        )  # a file may go meanwhile


def _of_shard(parts: Sequence[Part], shard: str) -> Sequence[Part]:
    match = re.fullmatch("([0-9]{1,9})/([0-9]{1,9})", shard)
    number, count = map(int, match.groups()) if match else (0, 0)
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

    def open(self) -> Encoder:
        """Loads the encoder, and makes the folder with its manifest; or checks how the vectors there were made."""
        loaded = Encoder.load(self.encoder, precision=self.precision)
        settings: dict[str, Any] = {
            "isotune": version("isotune"),
            "encoder": self.encoder,  # for people, as the version is; the fingerprint decides
            "fingerprint": loaded.fingerprint(),
            "dimension": loaded.dimension,
            "precision": self.precision or "as saved",
            "normalize": self.normalize,
            "columns": self.columns,
        }
        name, manifest = self.place.name, self.place.below(MANIFEST)
        if not manifest.files():
            if any(file[:1] not in (".", "_") for file in self.place.files()):
                raise InputError(
                    f"{name}: it has files that isotune encode did not make; name a new folder"
                )
            try:
                with manifest.written(new=True) as file:
                    file.write_text(json.dumps(settings, indent=2) + "\n", "utf-8")
            except InputError:
                if not manifest.files():  # else another process was faster
                    raise
        with manifest.read() as file:
            theirs = read_json(file)
        if theirs.get("fingerprint") != settings["fingerprint"]:
            other = theirs.get("encoder")
            raise InputError(
                f"{name}: it holds vectors of another encoder, {other}; name another folder"
            )
        for option in sorted(settings.keys() - {"isotune", "encoder"}):
            if theirs.get(option) != settings[option]:
                raise InputError(
                    f"{name}: its vectors were made with {option} {theirs.get(option)}, not {settings[option]}; name "
                    "another folder or give the same options"
                )
        return loaded

    def left(self, parts: Sequence[Part]) -> list[Part]:
        """The parts whose file of vectors is not there, or is not of the text as it is."""
        if inside := [part for part in parts if part.source.path.startswith(f"{self.place.path}/")]:
            text = inside[0].source.name
            raise InputError(
                f"{text}: it is in {self.place.name}, the folder of the vectors; name sources without it"
            )
        times = self.place.files()

        def is_done(part: Part) -> bool:
            later = times.get(part.name, part.time - CLOCK) - part.time
            return abs(later) < CLOCK or (
                later > 0 and not self.place.is_local
            )  # objects are newer than their text

        return [part for part in parts if not is_done(part)]

    def encode(
        self, part: Part, encoder: Encoder, advance: Advance | None = None
    ) -> tuple[int, int]:
        """Makes the file of vectors of a part; returns its number of rows, and how many of their texts were cut."""
        cut = encoder.seen["cut"]
        with part.source.read() as text, self.place.below(part.name).written() as file:
            rows = encode_file(encoder, text, file, self.columns, self.normalize, advance)
            os.utime(file, ns=(part.time, part.time))
        return rows, encoder.seen["cut"] - cut

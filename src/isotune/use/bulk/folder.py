"""A folder of vectors: each file of text becomes a file of vectors.

    vectors/_manifest.json        what all vectors have in common
    vectors/part-07.parquet       a file of vectors, whole or not there

Readers of a folder of parquet files skip names that begin with a dot or an underscore.

A file of vectors gets the time of its text. The same command, given again, makes the files that are not there or have
another time. Processes that share the work have a shard of the files each, and know nothing of each other: each puts
whole files into place.
"""

import glob
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from isotune.data import DATASETS
from isotune.data.records import format_of
from isotune.data.sources import files_of
from isotune.encoder.encoder import Encoder
from isotune.encoder.stream import Advance
from isotune.errors import InputError
from isotune.files import make_folder, read_json, written
from isotune.kernels import Precision
from isotune.kernels.precision import resolved
from isotune.use.bulk.vector_file import encode_file

MANIFEST = "_manifest.json"
CLOCK = 10_000_000  # nanoseconds by which file systems round times
OLD_SETTINGS = Path(".encoding", "settings.json")  # where folders have their settings whose manifest came last


class Part(NamedTuple):
    """A file of text, and the name of its file of vectors inside the folder, such as "2024/part-07.parquet"."""

    source: Path
    name: str


class Outcome(NamedTuple):
    """What a folder holds in the end."""

    parts: int  # all files of text
    made: int  # the files of vectors that this process made
    rows: int  # the rows of these
    left: int = 0  # the files of vectors that other shards have not made yet
    cut: int = 0  # the texts that were cut to the encoder's limit


def encode_files(
    encoder: str,
    sources: Sequence[str],
    out: Path,
    *,
    suffix: str = ".parquet",
    precision: Precision | None = None,
    normalize: bool = False,
    columns: Mapping[str, str] | None = None,
    shard: str = "1/1",
    advance: Advance | None = None,
) -> Outcome:
    """Encodes the files of a shard that are not done.

    A file that can't be read is named at the end. A folder that is there was made by the same options. `columns` is
    {"sentence": column}. Of eight processes that share the files, the second has the `shard` "2/8".
    """
    parts, columns = find_parts(sources, suffix), dict(columns or {})
    mine = _of_shard(parts, shard)
    loaded = Encoder.load(encoder, precision=precision)
    settings = {
        "isotune": version("isotune"),
        "encoder": encoder,  # for people, as the version is; the fingerprint decides
        "fingerprint": loaded.fingerprint(),
        "dimension": loaded.dimension,
        "precision": resolved(precision, loaded.device.type) or "as saved",
        "normalize": normalize,
        "columns": columns,
        "suffix": suffix,
    }
    try:
        _open(out, settings)
        made, rows, problems = 0, 0, []
        for part in mine:
            try:
                if not _is_done(part, out):
                    time = _time(part.source)
                    with written(out / part.name) as file:
                        rows += encode_file(
                            loaded,
                            part.source,
                            file,
                            suffix=suffix,
                            columns=columns,
                            normalize=normalize,
                            advance=advance,
                        )
                        os.utime(file, ns=(time, time))
                    made += 1
            except InputError as error:
                problems.append(str(error))
        if problems:
            count = f"{len(problems)} of {len(mine)} parts can't be encoded; the others are done"
            raise InputError(f"{problems[0]} ({count})")
        return Outcome(len(parts), made, rows, sum(not _is_done(part, out) for part in parts), loaded.seen["cut"])
    except OSError as error:
        raise InputError(f"{error.filename or out}: {error.strerror or error}") from error


def find_parts(sources: Sequence[str], suffix: str) -> list[Part]:
    """The parts of all sources, in their order.

    A file is named after its source. Files that match a pattern keep their folders below the pattern's fixed beginning,
    so `logs/**/*.txt` gives `2024/part-07.parquet` for `logs/2024/part-07.txt`.
    """
    if not sources:
        raise InputError("no files: name at least one file of text")
    parts: dict[str, Part] = {}
    for source in sources:
        if source == "-" or source.startswith("hub:") or source.partition(":")[0] in DATASETS:
            raise InputError(f"{source}: a folder of vectors gets a file for each file; name files or a pattern")
        for part in _parts_of(source, suffix):
            known = parts.setdefault(part.name, part)
            if known.source != part.source:
                raise InputError(f"{known.source} and {part.source}: both become {part.name}; make two folders")
    return list(parts.values())


def _parts_of(source: str, suffix: str) -> Iterator[Part]:
    fixed = Path()  # the folders of the source before the first that has a wildcard
    for folder in Path(source).parts[:-1]:
        if glob.has_magic(folder):
            break
        fixed /= folder
    for path in files_of(source):
        format_of(path)
        stem = path.with_suffix("") if path.suffix.lower() == ".gz" else path
        yield Part(path, stem.relative_to(fixed).with_suffix(suffix).as_posix())


def _of_shard(parts: Sequence[Part], shard: str) -> Sequence[Part]:
    match = re.fullmatch("([0-9]{1,9})/([0-9]{1,9})", shard)
    number, count = map(int, match.groups()) if match else (0, 0)
    if not 1 <= number <= count:
        raise InputError(f"shard {shard}: write NUMBER/COUNT; the shards of 8 are 1/8, 2/8 and so on to 8/8")
    return parts[number - 1 :: count]


def _open(out: Path, settings: Mapping[str, Any]) -> None:
    is_empty = not out.is_dir() or all(path.name[0] in "._" for path in out.iterdir())
    manifest = out / (OLD_SETTINGS if (out / OLD_SETTINGS).exists() else MANIFEST)
    if not manifest.exists():
        if not is_empty:
            raise InputError(f"{out}: it has files that isotune encode did not make; name a new folder")
        make_folder(out)
        with suppress(InputError), written(manifest, new=True) as file:  # another process may be faster
            file.write_text(json.dumps(settings, indent=2) + "\n", "utf-8")
    theirs = read_json(manifest)
    if theirs.get("fingerprint") != settings["fingerprint"]:
        raise InputError(f"{out}: it holds vectors of another encoder, {theirs.get('encoder')}; name another folder")
    for name in sorted(settings.keys() - {"isotune", "encoder"}):
        if theirs.get(name) != settings[name]:
            raise InputError(
                f"{out}: its vectors were made with {name} {theirs.get(name)}, not {settings[name]}; name another "
                "folder or give the same options"
            )


def _is_done(part: Part, out: Path) -> bool:
    """Whether the vectors have the time of their text; in a folder with old settings they are only newer."""
    target, changed = out / part.name, _time(part.source)
    made = _time(target) if target.exists() else 0
    return abs(made - changed) < CLOCK or (made > changed and (out / OLD_SETTINGS).exists())


def _time(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError as error:
        raise InputError(f"{path}: it can't be read ({error.strerror})") from error

"""A folder of vectors: each file of text becomes a file of vectors, and any number of processes share the work.

    vectors/part-07.parquet                      a file of vectors, whole or not there
    vectors/_manifest.json                       when all parts are done: what the folder holds
    vectors/.encoding/settings.json              what all vectors have in common
    vectors/.encoding/part-07.parquet.lock       is locked while a process makes the part
    vectors/.encoding/part-07.parquet.KEY.part   an unfinished file
    vectors/.encoding/part-07.parquet.json       the record of a part that is done

Readers of a folder of parquet files skip names that begin with a dot or an underscore.

A process goes over the parts and makes each part that it can lock. Then it waits for the locks of the others, until all
parts are done, whoever made them. The system frees the lock of a process that dies. The same command, given again, goes
on. A lock saves work, and protects no file: two processes that make the same part each write a file of their own, and
put it into place whole.
"""

import glob
import json
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from isotune.data import DATASETS
from isotune.data.records import format_of
from isotune.data.sources import files_of
from isotune.encoder import Precision
from isotune.encoder.encoder import Encoder
from isotune.encoder.stream import Advance
from isotune.errors import InputError
from isotune.files import file_sha256, make_folder, put_into_place, read_json, write_text
from isotune.use.bulk.vector_file import encode_file

logger = logging.getLogger(__name__)

MANIFEST = "_manifest.json"
STATE = ".encoding"
SETTINGS = "settings.json"

Write = Callable[[Path, Path], int]
"""Writes the vectors of a file of text to another file; returns their number."""


class Part(NamedTuple):
    """A file of text, and the name of its file of vectors inside the folder, such as "2024/part-07.parquet"."""

    source: Path
    name: str


class Outcome(NamedTuple):
    """What a folder holds in the end."""

    parts: int
    rows: int
    dimension: int
    parts_encoded_here: int


def encode_files(
    encoder: str,
    sources: Sequence[str],
    out: Path,
    *,
    suffix: str = ".parquet",
    precision: Precision | None = None,
    normalize: bool = False,
    columns: Mapping[str, str] | None = None,
    advance: Advance | None = None,
) -> Outcome:
    """Encodes files beside any number of processes that do the same, and writes the manifest when all are done.

    A file that can't be read is left out until the end. The manifest is not written then.

    Args:
        encoder: a name for `Encoder.load`.
        sources: files and patterns, see `find_parts`.
        out: the folder, new or made by the same options.
        suffix: of the files of vectors.
        precision: see `Encoder.load`.
        normalize: whether to scale each vector to length 1.
        columns: names the column of the text as {"sentence": column}, if the column has no usual name.
        advance: is told of progress.

    Raises:
        InputError: the encoder can't be loaded; a source can't be read; or the folder can't be written, has files of
            another origin, or has vectors of another encoder or of other options.
    """
    parts, columns = find_parts(sources, suffix), dict(columns or {})
    loaded = Encoder.load(encoder, precision=precision)
    settings = {
        "encoder": encoder,  # for people; the fingerprint decides
        "fingerprint": loaded.fingerprint(),
        "dimension": loaded.dimension,
        "precision": precision or "as saved",
        "normalize": normalize,
        "columns": columns,
        "suffix": suffix,
    }
    write = partial(encode_file, loaded, suffix=suffix, columns=columns, normalize=normalize, advance=advance)
    try:
        _open(out, settings)
        made = _make_all(out, parts, write)
        records = _finish(out)
    except OSError as error:
        raise InputError(f"{error.filename or out}: {error.strerror or error}") from error
    return Outcome(len(records), sum(record["rows"] for record in records), loaded.dimension, made)


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
                raise InputError(
                    f"{known.source} and {part.source}: both would become {part.name}; encode them into two folders"
                )
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


def _open(out: Path, settings: Mapping[str, Any]) -> None:
    """Opens a folder whose vectors have these settings, or makes a new one."""
    state = out / STATE
    if out.is_dir() and not state.is_dir() and any(out.iterdir()):
        raise InputError(f"{out}: it has files that isotune encode did not make; name a new folder")
    with _lock(state / f"{SETTINGS}.lock"):
        if not (state / SETTINGS).exists():
            write_text(state / SETTINGS, _json(settings))
    theirs = read_json(state / SETTINGS)
    if theirs.get("fingerprint") != settings["fingerprint"]:
        raise InputError(f"{out}: it holds vectors of another encoder, {theirs.get('encoder')}; name another folder")
    for name in sorted(settings.keys() - {"encoder"}):
        if theirs.get(name) != settings[name]:
            raise InputError(
                f"{out}: its vectors were made with {name} {theirs.get(name)}, not {settings[name]}; name another "
                "folder or give the same options"
            )


def _make_all(out: Path, parts: Sequence[Part], write: Write) -> int:
    """Makes parts until all of them are done, by this process or others; returns how many this process made."""
    made, problems, left = 0, [], parts
    for seconds in (0, -1):  # first what no other process makes, and then what is left, when it is free
        held = []
        for part in left:
            try:
                if _is_done(out, part):
                    continue
                with _lock(out / STATE / f"{part.name}.lock", seconds):
                    if not _is_done(out, part):  # another process may have done it since
                        _make(out, part, write)
                        made += 1
            except Timeout:
                held.append(part)
            except InputError as error:
                problems.append(str(error))
        left = [part for part in held if not _is_done(out, part)]
        if left:
            logger.warning("Waiting for other processes; parts left: %d.", len(left))
    if problems:
        count = f"{len(problems)} of {len(parts)} parts can't be encoded; the others are done"
        raise InputError(f"{problems[0]} ({count})")
    return made


@contextmanager
def _lock(path: Path, seconds: float = -1) -> Iterator[None]:
    """Holds a lock of the file system, which frees the lock when the process dies; waits for it, forever if below 0."""
    make_folder(path.parent)
    try:
        held = FileLock(path, timeout=seconds, fallback_to_soft=False).acquire()
    except Timeout:
        raise
    except OSError as error:
        raise InputError(f"{path}: no lock ({error.strerror}); name a folder on another file system") from error
    with held:
        yield


def _is_done(out: Path, part: Part) -> bool:
    """Whether the part has its vectors, and neither they nor their source have changed since."""
    record, target = read_json(_record(out, part), missing_ok=True), out / part.name
    is_current = _facts(part).items() <= record.items()
    return is_current and target.exists() and target.stat().st_size == record["bytes"]


def _make(out: Path, part: Part, write: Write) -> None:
    """Makes a locked part: its file of vectors, and then its record. What is out of date or unfinished is removed."""
    target, record, source = out / part.name, _record(out, part), _facts(part)
    make_folder(target.parent)
    for path in (out / MANIFEST, record, target, *record.parent.glob(f"{glob.escape(target.name)}.*.part")):
        path.unlink(missing_ok=True)
    unfinished = record.with_name(f"{target.name}.{uuid.uuid4().hex}.part")
    try:
        rows = write(part.source, unfinished)
        put_into_place(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
    facts = {"rows": rows, "bytes": target.stat().st_size, "sha256": file_sha256(target)}
    write_text(record, _json({"file": part.name, "source": str(part.source), **source, **facts}))


def _finish(out: Path) -> list[dict[str, Any]]:
    """Writes the manifest, and returns the records of all parts."""
    paths = sorted(path for path in (out / STATE).rglob("*.json") if path.name != SETTINGS)
    records = [read_json(path) for path in paths]
    settings, rows = read_json(out / STATE / SETTINGS), sum(record["rows"] for record in records)
    manifest = {"isotune": version("isotune"), **settings, "rows": rows, "parts": records}
    write_text(out / MANIFEST, _json(manifest))
    return records


def _record(out: Path, part: Part) -> Path:
    return out / STATE / f"{part.name}.json"


def _facts(part: Part) -> dict[str, int]:
    """The size and the time (nanoseconds since 1970) of a part's source: another value means a changed source."""
    try:
        facts = part.source.stat()
    except OSError as error:
        raise InputError(f"{part.source}: it can't be read ({error.strerror})") from error
    return {"source_bytes": facts.st_size, "source_modified": facts.st_mtime_ns}


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"

"""A folder of vectors: each file of text becomes a file of vectors.

    vectors/part-07.parquet                      a file of vectors, whole or not there
    vectors/_manifest.json                       when all parts are done: what the folder holds
    vectors/.encoding/settings.json              what all vectors have in common
    vectors/.encoding/part-07.parquet.json       the record of a part that is done

Readers of a folder of parquet files skip names that begin with a dot or an underscore.

The same command, given again, makes the parts that are not done. Processes that share the work have a shard of the
parts each, and know nothing of each other: each puts whole files into place, and the last writes the manifest.
"""

import glob
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from isotune.data import DATASETS
from isotune.data.records import format_of
from isotune.data.sources import files_of
from isotune.encoder.encoder import Encoder
from isotune.encoder.stream import Advance
from isotune.errors import InputError
from isotune.files import file_sha256, make_folder, read_json, write_text, written
from isotune.kernels import Precision
from isotune.kernels.precision import resolved
from isotune.use.bulk.vector_file import encode_file

MANIFEST = "_manifest.json"
STATE = ".encoding"
SETTINGS = "settings.json"


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
    parts_left: int = 0  # those of other shards that are not done yet


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
    """Encodes the files of a shard that are not done, and writes the manifest when all files are.

    A file that can't be read is left out until the end. The manifest is not written then. A folder that is there was
    made by the same options. `columns` is {"sentence": column}. Of eight processes that share the files, the second has
    the `shard` "2/8".
    """
    parts, columns = find_parts(sources, suffix), dict(columns or {})
    mine = _of_shard(parts, shard)
    loaded = Encoder.load(encoder, precision=precision)
    settings = {
        "encoder": encoder,  # for people; the fingerprint decides
        "fingerprint": loaded.fingerprint(),
        "dimension": loaded.dimension,
        "precision": resolved(precision, loaded.device.type) or "as saved",
        "normalize": normalize,
        "columns": columns,
        "suffix": suffix,
    }
    write = partial(encode_file, loaded, suffix=suffix, columns=columns, normalize=normalize, advance=advance)
    try:
        _open(out, settings)
        made, problems = 0, []
        for part in mine:
            try:
                if not _is_done(out, part):
                    _make(out, part, write)
                    made += 1
            except InputError as error:
                problems.append(str(error))
        if problems:
            count = f"{len(problems)} of {len(mine)} parts can't be encoded; the others are done"
            raise InputError(f"{problems[0]} ({count})")
        left = sum(not _is_done(out, part) for part in parts)
        records = _finish(out, is_whole=not left)
    except OSError as error:
        raise InputError(f"{error.filename or out}: {error.strerror or error}") from error
    return Outcome(len(records), sum(record["rows"] for record in records), loaded.dimension, made, left)


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
    state = out / STATE
    if out.is_dir() and not state.is_dir() and any(out.iterdir()):
        raise InputError(f"{out}: it has files that isotune encode did not make; name a new folder")
    make_folder(state)
    if not (state / SETTINGS).exists():
        try:
            with written(state / SETTINGS, new=True) as file:
                file.write_text(_json(settings), "utf-8")
        except InputError:
            if not (state / SETTINGS).exists():  # else another process was faster
                raise
    theirs = read_json(state / SETTINGS)
    if theirs.get("fingerprint") != settings["fingerprint"]:
        raise InputError(f"{out}: it holds vectors of another encoder, {theirs.get('encoder')}; name another folder")
    for name in sorted(settings.keys() - {"encoder"}):
        if theirs.get(name) != settings[name]:
            raise InputError(
                f"{out}: its vectors were made with {name} {theirs.get(name)}, not {settings[name]}; name another "
                "folder or give the same options"
            )


def _is_done(out: Path, part: Part) -> bool:
    record, target = read_json(_record(out, part), missing_ok=True), out / part.name
    is_current = _facts(part).items() <= record.items()
    return is_current and target.exists() and target.stat().st_size == record["bytes"]


def _make(out: Path, part: Part, write: Callable[[Path, Path], int]) -> None:
    target, record, source = out / part.name, _record(out, part), _facts(part)
    # Vectors without a record may be those that another process has just put there.
    for path in (out / MANIFEST, *([target, record] if record.exists() else ())):
        path.unlink(missing_ok=True)
    with written(target) as file:
        rows = write(part.source, file)
        facts = {"rows": rows, "bytes": file.stat().st_size, "sha256": file_sha256(file)}
    write_text(record, _json({"file": part.name, "source": str(part.source), **source, **facts}))


def _finish(out: Path, is_whole: bool) -> list[dict[str, Any]]:
    paths = sorted(path for path in (out / STATE).rglob("*.json") if path.name != SETTINGS)
    records = [read_json(path) for path in paths]
    settings, rows = read_json(out / STATE / SETTINGS), sum(record["rows"] for record in records)
    manifest = {"isotune": version("isotune"), **settings, "rows": rows, "parts": records}
    if is_whole:
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

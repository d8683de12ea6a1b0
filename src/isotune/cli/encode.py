"""`isotune encode`: the vectors of the sentences in a file or stream, or in many files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from isotune.cli.parameters import COLUMNS, DIMENSIONS, ENCODER, PRECISION, SOURCES, Name
from isotune.errors import InputError, counted
from isotune.kernels import Precision

if TYPE_CHECKING:
    from isotune.encoder.stream import Parts
    from isotune.use.quantization import NumberFormat

FILE = f"The sentences: {SOURCES}, in lines of up to 1,000,000 characters. Blank lines are skipped."
OUT = (
    "A new file for all vectors: .npy holds the vectors alone (float32, one row per sentence); "
    ".parquet holds the sentences too, and of a single file, named by its path, all columns. Or a "
    "folder (a name without a suffix, or such as s3://bucket/vectors), for a .parquet with all "
    "columns and the vectors for each file."
)
SHARD = (
    "Encode only a share of the files into the folder, such as 2/8 in the second of eight "
    "processes that share."
)
VECTORS = (
    "What vectors are written as: float32; int8, bytes of vectors of length 1, a quarter as large; "
    "or binary, the signs of the numbers, eight in a byte (uint8), a thirty-second as large."
)
RANGES = (
    "With --vectors int8: the ranges of an earlier file, such as vectors.ranges.json, so that the "
    "vectors can be compared with those. Unset: the ranges of the first 16,384 texts, which are "
    "kept beside the file of vectors."
)
ENGINE = "Have a Ray cluster make the files of a folder."
ADDRESS = "With --engine ray: the cluster. Unset: the one at RAY_ADDRESS, or else this machine."


def encode(
    encoder: Annotated[Name, ENCODER],
    /,
    *file: Annotated[Name, Parameter(help=FILE, required=True)],
    out: Annotated[str, Parameter(help=OUT, metavar="FILE|FOLDER")] = "vectors.npy",
    normalize: Annotated[bool, Parameter(help="Scale each vector to length 1.")] = False,
    vectors: Annotated[Literal["float32", "int8", "binary"], Parameter(help=VECTORS)] = "float32",
    ranges: Annotated[Path | None, Parameter(help=RANGES, metavar="FILE")] = None,
    dimensions: Annotated[int | None, DIMENSIONS] = None,
    precision: Annotated[Precision, PRECISION] = "auto",
    shard: Annotated[
        str | None, Parameter(help=SHARD, metavar="NUMBER/COUNT", group="Folder")
    ] = None,
    columns: Annotated[dict[str, str] | None, COLUMNS] = None,
    engine: Annotated[Literal["ray"] | None, Parameter(help=ENGINE, group="Folder")] = None,
    address: Annotated[str | None, Parameter(help=ADDRESS, group="Folder")] = None,
) -> None:
    """With a folder as --out, as in isotune encode ENCODER 'parts/*.parquet' --out vectors, each
    file gets a file of vectors.

    To encode a folder faster, start its command several times, on any machines that share the
    files, with --shard 1/8 to --shard 8/8, or give the work to a cluster by --engine ray. After an
    interruption, the same command goes on.
    """
    is_file = _names_a_file(out)
    for option, value in (("--engine", engine), ("--shard", shard)):
        if value and is_file:
            raise InputError(f"{option} is for a folder of vectors; --out {out} is a file")
    if shard and engine:
        raise InputError("--shard can't be given with --engine ray, which divides the files")
    if address and not engine:
        raise InputError("--address is for --engine ray; add that")
    options: dict[str, Any] = {
        "normalize": normalize,
        "precision": precision,
        "columns": columns or {},
        "dimensions": dimensions,
        "vectors": vectors,
        "ranges": ranges,
    }
    if is_file:
        _encode_to_file(encoder, file, Path(out), options)
    elif engine:
        _encode_to_folder(encoder, file, out, None, {**options, "address": address})
    else:
        _encode_to_folder(encoder, file, out, shard or "1/1", options)


def _names_a_file(out: str) -> bool:
    """Whether --out is one file of vectors, and not a folder."""
    path = Path(out)
    if "://" not in out:
        return bool(path.suffix) and not path.is_dir()
    if path.suffix in (".npy", ".parquet"):
        raise InputError(
            f"--out {out}: one file of vectors is a file of this machine; name a folder there"
        )
    return False


def _encode_to_folder(
    encoder: str, files: Sequence[str], out: str, shard: str | None, options: Mapping[str, Any]
) -> None:
    """Encodes each file of a shard into a file of the folder; on a Ray cluster without a shard."""
    from isotune.encoder.stream import progress
    from isotune.use.bulk.places import Place

    with progress(None) as advance:
        if shard is None:
            from isotune.use.bulk.on_ray import encode_on_ray

            outcome = encode_on_ray(encoder, files, out, advance=advance, **options)
        else:
            from isotune.use.bulk.folder import encode_files

            outcome = encode_files(encoder, files, out, shard=shard, advance=advance, **options)
    made = f"this command made {outcome.made}, with {counted(outcome.rows, 'vector')}"
    line = f"{Place.of(out).name}: {counted(outcome.parts, 'file')}; {made}"
    if outcome.left:
        line += f"; {counted(outcome.left, 'file')} left"
    if outcome.cut:
        line += f"; cut at the encoder's limit: {counted(outcome.cut, 'text')}"
    print(line)


def _encode_to_file(
    encoder: str, files: Sequence[str], out: Path, options: Mapping[str, Any]
) -> None:
    import time

    from isotune.data import Sentence, read
    from isotune.encoder.stream import progress
    from isotune.files import atomic_write
    from isotune.use.bulk.settings import Settings
    from isotune.use.bulk.vector_file import SUFFIXES, encode_rows
    from isotune.use.quantization import ranges_beside

    settings = Settings(encoder, **options)
    if out.suffix not in SUFFIXES:
        raise InputError(
            f"--out {out}: vectors are written as {' or '.join(SUFFIXES)}, or into a folder"
        )
    beside = ranges_beside(out)
    if settings.vectors == "int8" and settings.ranges is None and beside.exists():
        raise InputError(
            f"{beside}: it exists already; give it by --ranges, or choose another name for --out"
        )
    # The vectors of a single file get all its columns.
    with_columns = out.suffix == ".parquet" and len(files) == 1 and Path(files[0]).is_file()
    with atomic_write(out, new=True) as path, progress(None) as advance:
        # A wrong name is told before the encoder is loaded.
        rows = read(files, Sentence, settings.columns)
        model, number_format = settings.load()
        start = time.perf_counter()
        if with_columns:
            source = Path(files[0])
            encoded = encode_rows(
                model, source, path, settings.columns, settings.scales, advance, number_format
            )
            count = encoded.rows
        else:
            sentences = (row.sentence for row in rows)
            parts = model.encode_parts(sentences, normalize=settings.scales, advance=advance)
            count = _write_parts(parts, path, out.suffix, model.dimension, number_format)
        rate = count / (time.perf_counter() - start)
        new_ranges = None
        if settings.ranges is None:
            new_ranges = number_format.ranges
        if new_ranges:
            new_ranges.save(beside)
    print(f"{out}: {counted(count, 'vector')} of {model.dimension} features, {rate:,.0f} a second")
    if new_ranges:
        texts = counted(new_ranges.texts, "text")
        print(f"{beside}: the ranges of {texts}; give it by --ranges for other texts and queries")


def _write_parts(
    parts: Parts, path: Path, suffix: str, dimension: int, number_format: NumberFormat
) -> int:
    """Writes a stream of sentences and their vectors; returns how many they are."""
    import pyarrow as pa

    from isotune.use.bulk.vector_file import write_npy, write_parquet

    with path.open("wb") as target:
        if suffix == ".npy":
            blocks = (vectors for _, vectors in parts)
            return write_npy(target, dimension, blocks, number_format)
        schema = pa.schema({"sentence": pa.string()})
        tables = ((pa.table([texts], schema=schema), vectors) for texts, vectors in parts)
        return write_parquet(target, schema, dimension, tables, number_format)

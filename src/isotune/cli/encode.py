"""`isotune encode`: the vectors of the sentences in a file or stream, or in many files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from isotune.cli.parameters import COLUMNS, ENCODER, PRECISION, SOURCES, Name
from isotune.errors import InputError, counted
from isotune.kernels import Precision

FILE = f"The sentences: {SOURCES}, in lines of up to 1,000,000 characters. Blank lines are skipped."
OUT = (
    "A new file for all vectors: .npy holds the vectors alone (float32, one row per sentence); .parquet holds the "
    "sentences too, and of a single file, named by its path, all columns. Or a folder (a name without a suffix, or "
    "such as s3://bucket/vectors), for a .parquet with all columns and the vectors for each file."
)
SHARD = "Encode only a share of the files into the folder, such as 2/8 in the second of eight processes that share."
ENGINE = "Have a Ray cluster make the files of a folder."
ADDRESS = "With --engine ray: the cluster. Unset: the one at RAY_ADDRESS, or else this machine."


def encode(
    encoder: Annotated[Name, ENCODER],
    /,
    *file: Annotated[Name, Parameter(help=FILE, required=True)],
    out: Annotated[str, Parameter(help=OUT, metavar="FILE|FOLDER")] = "vectors.npy",
    normalize: Annotated[bool, Parameter(help="Scale each vector to length 1.")] = False,
    precision: Annotated[Precision, PRECISION] = "auto",
    shard: Annotated[
        str | None, Parameter(help=SHARD, metavar="NUMBER/COUNT", group="Folder")
    ] = None,
    columns: Annotated[dict[str, str] | None, COLUMNS] = None,
    engine: Annotated[Literal["ray"] | None, Parameter(help=ENGINE, group="Folder")] = None,
    address: Annotated[str | None, Parameter(help=ADDRESS, group="Folder")] = None,
) -> None:
    """With a folder as --out, as in isotune encode ENCODER 'parts/*.parquet' --out vectors, each file gets a file of
    vectors.

    To encode a folder faster, start its command several times, on any machines that share the files, with --shard 1/8
    to --shard 8/8, or give the work to a cluster by --engine ray. After an interruption, the same command goes on.
    """
    options: dict[str, Any] = {"normalize": normalize, "precision": precision, "columns": columns}
    path = Path(out)
    if "://" in out and path.suffix in (".npy", ".parquet"):
        raise InputError(
            f"--out {out}: one file of vectors is a file of this machine; name a folder there"
        )
    is_file = bool(path.suffix) and not path.is_dir() and "://" not in out
    for_folders = f"is for a folder of vectors; --out {out} is a file"
    for option, value, is_wrong, reason in (
        ("--engine", engine, is_file, for_folders),
        ("--shard", shard, is_file, for_folders),
        ("--shard", shard, engine, "can't be given with --engine ray, which divides the files"),
        ("--address", address, not engine, "is for --engine ray; add that"),
    ):
        if value and is_wrong:
            raise InputError(f"{option} {reason}")
    if is_file:
        return _encode_to_file(encoder, file, path, **options)

    from isotune.encoder.stream import progress
    from isotune.use.bulk.places import Place

    with progress(None) as advance:
        if engine:
            from isotune.use.bulk.on_ray import encode_on_ray

            outcome = encode_on_ray(encoder, file, out, address=address, advance=advance, **options)
        else:
            from isotune.use.bulk.folder import encode_files

            outcome = encode_files(
                encoder, file, out, shard=shard or "1/1", advance=advance, **options
            )
    left = f"; {counted(outcome.left, 'file')} left" if outcome.left else ""
    cut = f"; cut at the encoder's limit: {counted(outcome.cut, 'text')}" if outcome.cut else ""
    made = f"this command made {outcome.made}, with {counted(outcome.rows, 'vector')}"
    print(f"{Place.of(out).name}: {counted(outcome.parts, 'file')}; {made}{left}{cut}")


def _encode_to_file(
    encoder: str,
    files: Sequence[str],
    out: Path,
    normalize: bool,
    precision: Precision,
    columns: dict[str, str] | None,
) -> None:
    import time

    import pyarrow as pa

    from isotune.data import Sentence, read
    from isotune.encoder.encoder import Encoder
    from isotune.encoder.stream import progress
    from isotune.files import written
    from isotune.use.bulk.vector_file import SUFFIXES, encode_file, write_npy, write_parquet

    if out.suffix not in SUFFIXES:
        raise InputError(
            f"--out {out}: vectors are written as {' or '.join(SUFFIXES)}, or into a folder"
        )
    with_text = out.suffix == ".parquet"
    with_columns = with_text and len(files) == 1 and Path(files[0]).is_file()
    schema = pa.schema({"sentence": pa.string()})
    with written(out, new=True) as path, progress(None) as advance:
        rows = None if with_columns else read(files, Sentence, columns)
        model = Encoder.load(encoder, precision=precision)
        start = time.perf_counter()
        if rows is None:
            count = encode_file(model, Path(files[0]), path, columns or {}, normalize, advance)
        else:
            parts = model.encode_parts(
                (row.sentence for row in rows), normalize=normalize, advance=advance
            )
            with path.open("wb") as target:
                if with_text:
                    tables = ((pa.table([part], schema=schema), vectors) for part, vectors in parts)
                    count = write_parquet(target, schema, model.dimension, tables)
                else:
                    count = write_npy(target, model.dimension, (vectors for _, vectors in parts))
        rate = count / (time.perf_counter() - start)
    print(f"{out}: {counted(count, 'vector')} of {model.dimension} features, {rate:,.0f} a second")

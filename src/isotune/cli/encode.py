"""`isotune encode`: the vectors of the sentences in a file or stream, or in many files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from isotune.cli.parameters import COLUMNS, ENCODER, PRECISION, SOURCES
from isotune.errors import InputError
from isotune.kernels import Precision

FILE = f"The sentences: {SOURCES}, in lines of up to 1,000,000 characters. Blank lines are skipped."
OUT = (
    "A new file for all vectors: .npy holds the vectors alone (float32, one row per sentence); .parquet holds the "
    "sentences too. Or a folder (a name without a suffix), for a file of vectors for each file."
)
SHARD = "Encode only a share of the files into the folder, such as 2/8 in the second of eight processes that share."
FORMAT = "The format of the files in a folder. parquet keeps all columns and adds the column vector. Unset: parquet."


def encode(
    encoder: Annotated[str, ENCODER],
    /,
    *file: Annotated[str, Parameter(help=FILE, required=True)],
    out: Annotated[Path, Parameter(help=OUT, metavar="FILE|FOLDER")] = Path("vectors.npy"),
    file_format: Annotated[Literal["parquet", "npy"] | None, Parameter("--format", help=FORMAT)] = None,
    normalize: Annotated[bool, Parameter(help="Scale each vector to length 1.")] = False,
    precision: Annotated[Precision, PRECISION] = "auto",
    shard: Annotated[str | None, Parameter(help=SHARD, metavar="NUMBER/COUNT")] = None,
    columns: Annotated[dict[str, str] | None, COLUMNS] = None,
) -> None:
    """The command isotune encode ENCODER notes.txt --out notes.npy makes one file of vectors.

    The command isotune encode ENCODER 'parts/*.parquet' --out vectors makes a file of vectors for each of the files.

    To encode a folder faster, start its command several times, on any machines that share the files, with --shard 1/8
    to --shard 8/8. After an interruption, the same command goes on.
    """
    if out.suffix and not out.is_dir():
        if file_format or shard:
            raise InputError(f"{'--format' if file_format else '--shard'} is for a folder of vectors; {out} is a file")
        _encode_to_file(encoder, file, out, normalize, precision, columns)
        return

    from isotune.encoder.stream import progress
    from isotune.use.bulk.folder import encode_files

    with progress(None) as advance:
        outcome = encode_files(
            encoder,
            file,
            out,
            suffix=f".{file_format or 'parquet'}",
            precision=precision,
            normalize=normalize,
            columns=columns,
            shard=shard or "1/1",
            advance=advance,
        )
    left = f"; of other shards, {outcome.left} are left" if outcome.left else ""
    cut = f", {outcome.cut:,} of texts that were cut" if outcome.cut else ""
    print(f"{out}: {outcome.parts} files; this process made {outcome.made}, with {outcome.rows:,} vectors{cut}{left}")


def _encode_to_file(
    encoder: str,
    files: Sequence[str],
    out: Path,
    normalize: bool,
    precision: Precision,
    columns: Mapping[str, str] | None,
) -> None:
    import time

    import pyarrow as pa

    from isotune.data import Sentence, read
    from isotune.encoder.encoder import Encoder
    from isotune.encoder.stream import progress
    from isotune.files import written
    from isotune.use.bulk.vector_file import SUFFIXES, write_vectors

    if out.suffix not in SUFFIXES:
        raise InputError(f"--out {out}: vectors are written as {' or '.join(SUFFIXES)}, or into a folder")
    schema = pa.schema({"sentence": pa.string()})
    nothing = pa.Table.from_batches([], schema)  # pyarrow imports pandas to make a table of arrays
    with written(out, new=True) as path, path.open("wb") as target:
        rows = read(files, Sentence, columns)
        model = Encoder.load(encoder, precision=precision)
        start = time.perf_counter()
        with progress(None) as advance:
            parts = model.encode_parts((row.sentence for row in rows), normalize=normalize, advance=advance)
            # A .npy file has no sentences.
            keep = out.suffix == ".parquet"
            tables = ((pa.table([part], schema=schema) if keep else nothing, vectors) for part, vectors in parts)
            count = write_vectors(target, out.suffix, schema, model.dimension, tables)
        rate = count / (time.perf_counter() - start)
    print(f"{out}: {count:,} vectors of {model.dimension} features, {rate:,.0f} a second")

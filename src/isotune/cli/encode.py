"""`isotune encode`: the vectors of the sentences in a file or stream."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import COLUMNS, COLUMNS_FORM, ENCODER, PRECISION, key_values, new_file
from isotune.encoder import Precision

FILE = (
    "The sentences: a file (.txt, .csv, .tsv, .jsonl or .parquet, also .gz), a file pattern, a named dataset, or - for "
    "standard input. It may be of any length. Blank lines are skipped."
)
OUT = "The new file. .npy holds the vectors alone (float32, one row per sentence); .parquet holds the sentences too."
COLUMN = "The column that holds the sentence, such as sentence=body. Unset: a column with a usual name."


def encode(
    encoder: Annotated[str, ENCODER],
    file: Annotated[str, Parameter(help=FILE)],
    /,
    *,
    out: Annotated[Path, Parameter(help=OUT, metavar="FILE")] = Path("vectors.npy"),
    normalize: Annotated[bool, Parameter(help="Scale each vector to length 1.")] = False,
    precision: Annotated[Precision | None, PRECISION] = None,
    columns: Annotated[tuple[str, ...], Parameter(help=COLUMN), COLUMNS] = (),
) -> None:
    """Turn the sentences of a file into vectors."""
    import time

    from isotune.data import Sentence, read
    from isotune.encoder.load import load_encoder
    from isotune.encoder.stream import progress
    from isotune.encoder.vector_file import VECTOR_FILES
    from isotune.errors import InputError

    if out.suffix not in VECTOR_FILES:
        raise InputError(f"--out {out}: vectors are written as {' or '.join(VECTOR_FILES)}")
    with new_file(out) as target:
        rows = read(file, Sentence, key_values("--columns", columns, COLUMNS_FORM))
        model = load_encoder(encoder, precision)
        start, count = time.perf_counter(), 0
        with VECTOR_FILES[out.suffix](target, model.dimension) as write, progress(None) as advance:
            sentences = (row.sentence for row in rows)
            for part, vectors in model.encode_parts(sentences, normalize=normalize, advance=advance):
                write(part, vectors)
                count += len(part)
        rate = count / (time.perf_counter() - start)
    print(f"{out}: {count:,} vectors of {model.dimension} features, {rate:,.0f} a second")

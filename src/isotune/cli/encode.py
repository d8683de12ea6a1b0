"""`isotune encode`: a file of sentences to a file of vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import COLUMNS, ENCODER, columns_table, new_file

FILE = (
    "Sentences: a file (.txt, .csv, .tsv, .jsonl, .parquet, also .gz), a pattern, a named dataset, or - for standard "
    "input. A blank line is no sentence and gets no vector."
)
OUT = "A new file: .npy for the vectors alone (float32, a row a sentence), .parquet for each sentence with its vector."
COLUMN = "Which column holds the sentence, where its name isn't a usual one, e.g. sentence=body."


def encode(
    encoder: Annotated[str, ENCODER],
    file: Annotated[str, Parameter(help=FILE)],
    /,
    *,
    out: Annotated[Path, Parameter(help=OUT, metavar="FILE")] = Path("vectors.npy"),
    normalize: Annotated[bool, Parameter(help="Scale every vector to length 1.")] = False,
    columns: Annotated[tuple[str, ...], Parameter(help=COLUMN), COLUMNS] = (),
) -> None:
    """Encode sentences: one vector each, in their order."""
    from isotune.data import Sentence, read
    from isotune.encoder.words import load_encoder
    from isotune.errors import InputError

    if out.suffix not in (".npy", ".parquet"):
        raise InputError(f"--out {out}: vectors are written as .npy or .parquet")
    with new_file(out) as target:
        sentences = [row.sentence for row in read(file, Sentence, columns_table(columns))]
        vectors = load_encoder(encoder).encode(sentences, normalize=normalize, show_progress=True)
        if out.suffix == ".npy":
            import numpy as np

            np.save(target, vectors)
        else:
            import pyarrow as pa
            import pyarrow.parquet as pq

            column = pa.FixedSizeListArray.from_arrays(vectors.ravel(), vectors.shape[1])
            pq.write_table(pa.table({"sentence": sentences, "vector": column}), target)
    print(f"{out}: {len(vectors):,} vectors of {vectors.shape[1]} features")

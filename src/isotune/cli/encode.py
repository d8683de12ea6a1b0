"""`isotune encode`: a file of sentences to a file of vectors."""

from __future__ import annotations

from pathlib import Path


def encode(encoder: str, source: str, *, out: Path | None = None, normalize: bool = False) -> None:
    """Encode sentences.

    Parameters
    ----------
    encoder
        A folder or hub name.
    source
        Sentences: a file, a pattern, a named dataset, or - for standard input. A blank line is no sentence and gets
        no vector.
    out
        A new file: .npy for the vectors alone (float32, a row a sentence), .parquet for each sentence with its
        vector. Unset: the source's name with .npy.
    normalize
        Scale every vector to length 1.
    """
    from isotune.data import Sentence, read
    from isotune.encoder.encoder import Encoder
    from isotune.errors import InputError

    name = source.replace(":", "-") if Path(source).name == source and not Path(source).exists() else Path(source).name
    out = out or Path(name.partition(".")[0] + ".npy")
    if out.suffix not in (".npy", ".parquet"):
        raise InputError(f"--out {out}: vectors are written as .npy or .parquet")
    if out.exists():
        raise InputError(f"--out {out}: it exists already; name another file")
    sentences = [row.sentence for row in read(source, Sentence)]
    vectors = Encoder.load(encoder).encode(sentences, normalize=normalize, show_progress=True)
    if out.suffix == ".npy":
        import numpy as np

        np.save(out, vectors)
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        column = pa.FixedSizeListArray.from_arrays(vectors.ravel(), vectors.shape[1])
        pq.write_table(pa.table({"sentence": sentences, "vector": column}), out)
    print(f"{out}: {len(vectors):,} vectors of {vectors.shape[1]} features")

"""`isotune duplicates`: sentences that say the same, and the file without them."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import COLUMNS, ENCODER, FILES, PRECISION, PROBABILITY, least_cosine
from isotune.kernels import Precision

OUT = "The new folder for pairs.csv, clusters.csv, and unique.txt or unique.jsonl."
ABOVE = (
    "The least cosine of two sentences that say the same, above 0 and up to 1. It depends on the encoder. Unset, "
    "without --probability: 0.95."
)


def duplicates(
    encoder: Annotated[str, ENCODER],
    /,
    *file: Annotated[str, FILES],
    out: Annotated[Path, Parameter(help=OUT, metavar="DIR")] = Path("duplicates"),
    above: Annotated[float | None, Parameter(help=ABOVE, metavar="COSINE")] = None,
    probability: Annotated[float | None, PROBABILITY] = None,
    columns: Annotated[dict[str, str] | None, COLUMNS] = None,
    precision: Annotated[Precision, PRECISION] = "auto",
) -> None:
    """Writes all pairs of such sentences, clusters of them, and the rows without them: of each cluster the first row is
    kept.
    """
    from isotune.encoder.encoder import Encoder
    from isotune.errors import InputError
    from isotune.files import written
    from isotune.use.search.documents import read_documents
    from isotune.use.search.duplicates import find_duplicates

    if above is not None and not 0 < above <= 1:
        raise InputError(f"--above {above:g}: a cosine above 0 and up to 1 is needed")
    with written(out, new=True) as folder:
        folder.mkdir()
        documents = list(read_documents(file, columns))
        model = Encoder.load(encoder, precision=precision)
        calibration = model.calibration
        least = least_cosine(calibration, above, probability, 0.95)
        duplicates = find_duplicates(documents, model, least, show_progress=True)
        names = [path.name for path in duplicates.write(folder, calibration)]
    print(f"{len(documents):,} sentences: {len(duplicates.pairs):,} pairs, {len(duplicates.clusters()):,} clusters")
    print(f"without duplicates: {len(duplicates.unique):,} sentences")
    print(*(out / name for name in names), sep="\n")

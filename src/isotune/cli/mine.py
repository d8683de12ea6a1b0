"""`isotune mine`: pairs of sentences that mean the same, as training data."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import COLUMNS, ENCODER, FILES, PRECISION, PROBABILITY, least_cosine
from isotune.kernels import Precision

OUT = "The new file (.csv), with the columns sentence1, sentence2 and cosine. isotune train reads it as pairs."
ABOVE = "The least cosine of a pair, above 0 and below 1. It depends on the encoder. Unset, without --probability: 0.9."


def mine(
    encoder: Annotated[str, ENCODER],
    /,
    *file: Annotated[str, FILES],
    out: Annotated[Path, Parameter(help=OUT, metavar="FILE")] = Path("pairs.csv"),
    above: Annotated[float | None, Parameter(help=ABOVE, metavar="COSINE")] = None,
    probability: Annotated[float | None, PROBABILITY] = None,
    columns: Annotated[dict[str, str] | None, COLUMNS] = None,
    precision: Annotated[Precision, PRECISION] = "auto",
) -> None:
    """Two sentences are a pair if each is among the other's three nearest, their cosine is large enough, and they
    differ by more than case, spaces and punctuation.
    """
    from isotune.data import Sentence, read
    from isotune.encoder.encoder import Encoder
    from isotune.errors import InputError
    from isotune.files import written
    from isotune.use.search.duplicates import write_csv
    from isotune.use.search.mining import MinedPair, mine_pairs

    if above is not None and not 0 < above < 1:
        raise InputError(f"--above {above:g}: a cosine above 0 and below 1 is needed")
    if out.suffix != ".csv":
        raise InputError(f"--out {out}: pairs are written as .csv")
    with written(out, new=True) as path:
        sentences = [row.sentence for row in read(file, Sentence, columns)]
        model = Encoder.load(encoder, precision=precision)
        calibration = model.calibration
        least = least_cosine(calibration, above, probability, 0.9)
        pairs = mine_pairs(sentences, model, least, show_progress=True)
        if not pairs:
            raise InputError(f"no pair among {len(sentences):,} sentences has a cosine of {least:g}; give a lower one")
        rows = [(first, second, f"{cosine:.4f}") for first, second, cosine in pairs]
        chances = calibration.probability([pair.cosine for pair in pairs]) if calibration else None
        write_csv(path, MinedPair._fields, rows, chances)
    print(f"{out}: {len(pairs):,} pairs among {len(sentences):,} sentences")

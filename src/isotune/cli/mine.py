"""`isotune mine`: pairs of sentences that mean the same, as training data."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import COLUMNS, ENCODER, FILES, PRECISION, PROBABILITY
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
    import csv

    from isotune.data import Sentence, read
    from isotune.encoder.calibration import required
    from isotune.encoder.encoder import Encoder
    from isotune.errors import InputError
    from isotune.files import written
    from isotune.use.search.mining import MinedPair, mine_pairs

    if above is not None and not 0 < above < 1:
        raise InputError(f"--above {above:g}: a cosine above 0 and below 1 is needed")
    if above is not None and probability is not None:
        raise InputError("--above and --probability are two limits of one thing; give one of them")
    if out.suffix != ".csv":
        raise InputError(f"--out {out}: pairs are written as .csv")
    with written(out, new=True) as path:
        sentences = [row.sentence for row in read(file, Sentence, columns)]
        model = Encoder.load(encoder, precision=precision)
        calibration = model.calibration
        least = above or 0.9 if probability is None else required(calibration).cosine(probability)
        if least <= 0:
            raise InputError(f"--probability {probability:g} is the cosine {least:.3f}; the cosine has to be above 0")
        pairs = mine_pairs(sentences, model, least, show_progress=True)
        if not pairs:
            raise InputError(f"no pair among {len(sentences):,} sentences has a cosine of {least:g}; give a lower one")
        header, rows = [*MinedPair._fields], [[first, second, f"{cosine:.4f}"] for first, second, cosine in pairs]
        if calibration:
            header.append("probability")
            for row, chance in zip(rows, calibration.probability([pair.cosine for pair in pairs]), strict=True):
                row.append(f"{chance:.4f}")
        with path.open("w", encoding="utf-8", newline="") as table:
            csv.writer(table, lineterminator="\n").writerows([header, *rows])
    print(f"{out}: {len(pairs):,} pairs among {len(sentences):,} sentences")

"""`isotune mine`: pairs of sentences that mean the same, or hard negatives of pairs, as training data."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import COLUMNS, ENCODER, FILES, PRECISION, PROBABILITY, Name, within
from isotune.kernels import Precision

OUT = (
    "The new file (.csv), with the columns sentence1, sentence2 and cosine, or anchor, positive, negative and cosine. "
    "Unset: pairs.csv or triplets.csv. isotune train reads both."
)
ABOVE = "The least cosine of a pair, above 0 and below 1. It depends on the encoder. Unset, without --probability: 0.9."
HARD = (
    "The files hold pairs, such as questions and answers. For each pair, find up to COUNT second texts of other pairs "
    "that are near to its first text and do not belong to it. Name the columns by --columns sentence1=question "
    "sentence2=answer. Train on the triplets with isotune train FILE --model ENCODER --recipe adapt-pairs "
    "--negatives."
)
SHARE = "A negative's cosine is at most this share of the answer's, as nearer texts may be answers too. Unset: 0.95."


def mine(
    encoder: Annotated[Name, ENCODER],
    /,
    *file: Annotated[Name, FILES],
    out: Annotated[Path | None, Parameter(help=OUT, metavar="FILE")] = None,
    above: Annotated[float | None, Parameter(help=ABOVE, metavar="COSINE")] = None,
    probability: Annotated[float | None, PROBABILITY] = None,
    negatives: Annotated[int | None, Parameter(help=HARD, metavar="COUNT", group="Negatives"), within(1, 100)] = None,
    margin: Annotated[float | None, Parameter(help=SHARE, metavar="SHARE", group="Negatives"), within(0.01, 10)] = None,
    columns: Annotated[dict[str, str] | None, COLUMNS] = None,
    precision: Annotated[Precision, PRECISION] = "auto",
) -> None:
    """Two sentences are a pair if each is among the other's three nearest, their cosine is large enough, and they
    differ by more than case, spaces and punctuation. With --negatives, the pairs are known, and texts are found that
    do not belong to them.
    """
    import csv

    from isotune.data import Pair, Sentence, Triplet, read
    from isotune.encoder.calibration import required
    from isotune.encoder.encoder import Encoder
    from isotune.errors import InputError
    from isotune.files import written
    from isotune.use.search.mining import MARGIN, mine_negatives, mine_pairs

    if above is not None and not 0 < above < 1:
        raise InputError(f"--above {above:g}: a cosine above 0 and below 1 is needed")
    if [above, probability, negatives].count(None) < 2:
        raise InputError("--above and --probability choose pairs, and --negatives has them already; give one of these")
    if margin is not None and not negatives:
        raise InputError("--margin is for --negatives")
    out = out or Path("triplets.csv" if negatives else "pairs.csv")
    if out.suffix != ".csv":
        raise InputError(f"--out {out}: pairs are written as .csv")
    mined: list[tuple[Pair, float]] | list[tuple[Triplet, float]]
    with written(out, new=True) as path:
        texts = list(read(file, Pair if negatives else Sentence, columns))
        model = Encoder.load(encoder, precision=precision)
        calibration = model.calibration
        if negatives:
            mined = mine_negatives(map(Pair._make, texts), model, negatives, margin or MARGIN, show_progress=True)
            what = f"triplets, of {len({triplet[:2] for triplet, _ in mined}):,} of the {len(texts):,} pairs"
        else:
            least = above or 0.9 if probability is None else required(calibration).cosine(probability)
            if least <= 0:
                raise InputError(
                    f"--probability {probability:g} is the cosine {least:.3f}; the cosine has to be above 0"
                )
            mined = mine_pairs([row[0] for row in texts], model, least, show_progress=True)
            what = f"pairs among {len(texts):,} sentences"
        if not mined:
            change = "a larger --margin" if negatives else "a lower --above or --probability"
            raise InputError(f"no {what}; give {change}")
        header = [*mined[0][0]._fields, "cosine", *(["probability"] if calibration else [])]
        rows = [[*found, f"{cosine:.4f}"] for found, cosine in mined]
        if calibration:
            for row, chance in zip(rows, calibration.probability([cosine for _, cosine in mined]), strict=True):
                row.append(f"{chance:.4f}")
        with path.open("w", encoding="utf-8", newline="") as table:
            csv.writer(table, lineterminator="\n").writerows([header, *rows])
    print(f"{out}: {len(mined):,} {what}")

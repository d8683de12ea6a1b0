"""`isotune search`: the rows of an index that are nearest to a query."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import INDEX, JSON, WHERE, Name

K = "How many rows to print."
HYBRID = (
    "Join the ranking by cosine with a ranking by words, so that rare words and names count too."
)
PROBABILITY = (
    "The least probability that two sentences mean the same, as a limit in place of a cosine. It needs an encoder "
    "that isotune evaluate --calibrate has calibrated."
)
ENCODER = "The encoder of the index, if it is not where it was when the index was made."


def search(
    folder: Annotated[Path, INDEX],
    query: Annotated[str, Parameter(help="A text.")],
    /,
    *,
    k: Annotated[int, Parameter(name="-k", help=K, metavar="NUMBER")] = 10,
    where: Annotated[str | None, WHERE] = None,
    hybrid: Annotated[bool, Parameter(help=HYBRID)] = False,
    probability: Annotated[float | None, Parameter(help=PROBABILITY, metavar="NUMBER")] = None,
    encoder: Annotated[Name | None, Parameter(help=ENCODER, metavar="ENCODER")] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Each row is printed with the cosine of its vector and the query's, and below the text its id and other columns. A
    calibrated encoder (isotune evaluate --calibrate) gives the probability that both mean the same, too.
    """
    import math
    import sys

    from isotune.cli.tables import print_json
    from isotune.encoder.calibration import required
    from isotune.errors import printable
    from isotune.use.search import Index

    index = Index.open(folder, encoder)
    calibration = index.encoder.calibration
    least = -math.inf if probability is None else required(calibration).cosine(probability)
    found = index.search(query, k, where=where, hybrid=hybrid)
    hits = [hit for hit in found if hit.cosine >= least]
    chances = [float(calibration.probability(hit.cosine)) if calibration else None for hit in hits]
    if as_json:
        both = zip(hits, chances, strict=True)
        print_json({"hits": [{**hit._asdict(), "probability": chance} for hit, chance in both]})
        return
    for hit, chance in zip(hits, chances, strict=True):
        shown = "" if chance is None else f"  {chance:.3f}"
        print(f"{hit.cosine:.3f}{shown}  {printable(hit.text)}")
        print(
            printable(
                " " * 7
                + "  ".join([hit.id, *(f"{name}={value}" for name, value in hit.columns.items())])
            )
        )
    if len(hits) < k:
        which = "fits --where" if where else "is in the index"
        which = f"has --probability {probability:g}" if len(hits) < len(found) else which
        print(
            f"{f'{len(hits):,} of {k:,}: no other row' if hits else 'no row'} {which}",
            file=sys.stderr,
        )

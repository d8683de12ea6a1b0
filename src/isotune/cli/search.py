"""`isotune search`: the rows of an index that are nearest to a query."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from isotune.cli.parameters import INDEX, JSON, WHERE, Name

if TYPE_CHECKING:
    from isotune.use.search import Hit

K = "How many rows to print."
HYBRID = (
    "Join the ranking by cosine with a ranking by words, so that rare words and names count too."
)
PROBABILITY = (
    "The least probability that two sentences mean the same, as a limit in place of a cosine. It "
    "needs an encoder that isotune evaluate --calibrate has calibrated."
)
ENCODER = (
    "The encoder of the index, if it is not where it was when the index was made; or a smaller one "
    "that was trained to give its vectors (--match vectors)."
)


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
    """Each row is printed with the cosine of its vector and the query's, and below the text its id
    and other columns. A calibrated encoder (isotune evaluate --calibrate) gives the probability
    that both mean the same, too.
    """
    import math
    import sys

    from isotune.encoder.calibration import required
    from isotune.use.search import Index

    index = Index.open(folder, encoder)
    calibration = index.query_encoder.calibration
    least = -math.inf
    if probability is not None:
        least = required(calibration).cosine(probability)
    nearest = index.search(query, k, where=where, hybrid=hybrid)
    hits = [hit for hit in nearest if hit.cosine >= least]
    chances: list[float | None] = [None] * len(hits)
    if calibration:
        chances = [float(calibration.probability(hit.cosine)) for hit in hits]
    if as_json:
        _print_json(hits, chances)
        return
    _print_text(hits, chances)
    if len(hits) >= k:
        return
    which = "is in the index"
    if where:
        which = "fits --where"
    if len(hits) < len(nearest):
        which = f"has --probability {probability:g}"
    if hits:
        print(f"{len(hits):,} of {k:,}: no other row {which}", file=sys.stderr)
    else:
        print(f"no row {which}", file=sys.stderr)


def _print_json(hits: Sequence[Hit], chances: Sequence[float | None]) -> None:
    from isotune.cli.tables import print_json

    entries = []
    for hit, chance in zip(hits, chances, strict=True):
        entries.append({**hit._asdict(), "probability": chance})
    print_json({"hits": entries})


def _print_text(hits: Sequence[Hit], chances: Sequence[float | None]) -> None:
    from isotune.errors import printable

    for hit, chance in zip(hits, chances, strict=True):
        shown = "" if chance is None else f"  {chance:.3f}"
        print(f"{hit.cosine:.3f}{shown}  {printable(hit.text)}")
        columns = [f"{name}={value}" for name, value in hit.columns.items()]
        below = "  ".join([hit.id, *columns])
        print(printable(f"{'':7}{below}"))

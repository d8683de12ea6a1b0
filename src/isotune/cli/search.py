"""`isotune search`: the rows of an index that are nearest to a query."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import WHERE

FOLDER = Parameter(help="The folder of an index, which isotune index has made.")
K = "How many rows to print."
HYBRID = "Join the ranking by cosine with a ranking by words, so that rare words and names count too."
ENCODER = "The encoder of the index, if it is not where it was when the index was made."


def search(
    folder: Annotated[Path, FOLDER],
    query: Annotated[str, Parameter(help="A text.")],
    /,
    *,
    k: Annotated[int, Parameter(name="-k", help=K, metavar="NUMBER")] = 10,
    where: Annotated[str | None, WHERE] = None,
    hybrid: Annotated[bool, Parameter(help=HYBRID)] = False,
    encoder: Annotated[str | None, Parameter(help=ENCODER)] = None,
) -> None:
    """Find the rows of an index that are nearest to a query.

    Each row is printed with the cosine of its vector and the query's, and below the text its id and other columns.
    """
    import sys

    from isotune.use.search import Index

    index = Index.open(folder, encoder)
    hits = index.search(query, k, where=where, hybrid=hybrid)
    for hit in hits:
        print(f"{hit.cosine:.3f}  {hit.text}")
        print(" " * 7 + "  ".join([hit.id, *(f"{name}={value}" for name, value in hit.columns.items())]))
    if len(hits) < k:
        which = "rows fit --where" if where else "rows are in the index"
        print(f"only {len(hits):,} {which}", file=sys.stderr)

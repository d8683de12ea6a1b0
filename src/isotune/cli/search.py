"""`isotune search`: the rows of an index that are nearest to a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
SNIPPET_LINES = 2
"""Lines of a text that are shown."""

LEAST_TEXT = 20
"""Characters of a line of text on a narrow terminal."""

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
    """The best row stands first, with the cosine of its vector and the query's. A calibrated
    encoder (isotune evaluate --calibrate) gives the probability that both mean the same, too. With
    --hybrid the order is that of the joined score: the sum of 1 / (60 + rank) over the rankings by
    cosine and by words. Of a long text, the part with most of the query's words is shown, and below
    it the row's id and other columns; --json has whole texts.
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
    if hits:
        _print_text(query, hits, chances)
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


def _print_text(query: str, hits: Sequence[Hit], chances: Sequence[float | None]) -> None:
    """Prints a table of the hits; below the snippet of a text are its id and other columns."""
    from rich.table import Table
    from rich.text import Text

    from isotune.cli.tables import print_whole, stdout_console
    from isotune.errors import printable
    from isotune.use.search.snippet import find, snippet, words_of

    words = words_of(query)
    scores = [list(_scores(hit, chance)) for hit, chance in zip(hits, chances, strict=True)]
    titles = ["rank", *(title for title, _ in scores[0])]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("text", overflow="fold")
    taken = sum(len(title) + 2 for title in titles)
    size = SNIPPET_LINES * max(LEAST_TEXT, stdout_console().width - taken)
    for rank, (hit, values) in enumerate(zip(hits, scores, strict=True), 1):
        shown = Text(printable(snippet(hit.text, words, size)))
        for match in find(words, shown.plain):
            shown.stylize("bold", *match.span())
        shown.append(f"\n{printable(_columns(hit, size))}", "dim")
        table.add_row(str(rank), *(value for _, value in values), shown)
    print_whole(table)


def _scores(hit: Hit, chance: float | None) -> Iterator[tuple[str, str]]:
    """The scores of a hit with their titles; what the hits are ordered by comes first."""
    if hit.joined is not None:
        yield "joined", f"{hit.joined:.4f}"
    yield "cosine", f"{hit.cosine:.3f}"
    if chance is not None:
        yield "probability", f"{chance:.3f}"


def _columns(hit: Hit, size: int) -> str:
    """The id of a hit and its other columns, cut at `size` characters."""
    columns = [f"{name}={value}" for name, value in hit.columns.items()]
    text = "  ".join([hit.id, *columns])
    if len(text) > size:
        return f"{text[: size - 1]}…"
    return text

"""`isotune similarity`: the cosine similarity of two sentences."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import ENCODER


def similarity(
    encoder: Annotated[str, ENCODER],
    first: Annotated[str, Parameter(help="A sentence.")],
    second: Annotated[str, Parameter(help="Another sentence.")],
    /,
) -> None:
    """Print the cosine similarity of two sentences, from -1 to 1."""
    from isotune.encoder.encoder import Encoder

    vector1, vector2 = Encoder.load(encoder).encode([first, second], normalize=True)
    print(f"{vector1 @ vector2:.4f}")

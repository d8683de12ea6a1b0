"""`isotune similarity`: the cosine of two sentences."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import ENCODER


def similarity(
    encoder: Annotated[str, ENCODER],
    first: Annotated[str, Parameter(help="A sentence.")],
    second: Annotated[str, Parameter(help="Another one.")],
    /,
) -> None:
    """Print the cosine similarity of two sentences, from -1 to 1."""
    from isotune.encoder.load import load_encoder

    a, b = load_encoder(encoder).encode([first, second], normalize=True)
    print(f"{a @ b:.4f}")

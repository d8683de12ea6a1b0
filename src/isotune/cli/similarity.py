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
    """Print the cosine similarity of two sentences, from -1 to 1.

    A calibrated encoder (isotune evaluate --calibrate) gives the probability that they mean the same, too.
    """
    from isotune.encoder.encoder import Encoder

    model = Encoder.load(encoder)
    vector1, vector2 = model.encode([first, second], normalize=True)
    print(f"{vector1 @ vector2:.4f}")
    if calibration := model.calibration:
        print(f"{calibration.probability(vector1 @ vector2):.4f} is the probability that both mean the same")

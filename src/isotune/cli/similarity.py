"""`isotune similarity`: the cosine similarity of two sentences."""

from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import ENCODER, JSON


def similarity(
    encoder: Annotated[str, ENCODER],
    first: Annotated[str, Parameter(help="A sentence.")],
    second: Annotated[str, Parameter(help="Another sentence.")],
    /,
    *,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """A calibrated encoder (isotune evaluate --calibrate) gives the probability that they mean the same, too."""
    from isotune.cli.tables import print_json
    from isotune.encoder.encoder import Encoder

    model = Encoder.load(encoder)
    vector1, vector2 = model.encode([first, second], normalize=True)
    cosine, calibration = float(vector1 @ vector2), model.calibration
    probability = float(calibration.probability(cosine)) if calibration else None
    if as_json:
        print_json({"cosine": cosine, "probability": probability})
        return
    print(f"{cosine:.4f}")
    if probability is not None:
        print(f"{probability:.4f} is the probability that both mean the same")

"""What a cosine of an encoder means: the probability that two sentences mean the same.

`isotune.calibrate` fits a logistic curve to pairs that people have scored. The curve holds for one encoder, which the
fingerprint names. All commands and the server turn cosines into probabilities here.
"""

import math
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, PositiveFloat

from isotune.errors import InputError
from isotune.files import CHECKSUMS, checksums, write_text

CALIBRATION = "calibration.json"  # in an encoder's folder


class Calibration(BaseModel):
    """The probability is 1 / (1 + exp(-slope (cosine - threshold)))."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    slope: PositiveFloat
    threshold: float  # the cosine at which the probability is 0.5
    low: float  # low and high are the ends of the threshold's 95 % interval
    high: float
    pairs: int  # to which the curve was fitted
    fingerprint: str  # of the encoder

    def probability(self, cosines: ArrayLike) -> NDArray[np.float64]:
        """The probabilities of cosines of any shape, in that shape."""
        from scipy.special import expit

        return expit(self.slope * (np.asarray(cosines, np.float64) - self.threshold))

    def cosine(self, probability: float) -> float:
        """The least cosine, at most 1, with at least this probability; raises `InputError` if none has."""
        if not 0 < probability < 1:
            raise InputError(f"probability {probability:g}: a number above 0 and below 1 is needed")
        cosine = self.threshold + math.log(probability / (1 - probability)) / self.slope
        if cosine > 1:
            most = self.probability(1.0)
            raise InputError(
                f"probability {probability:g}: this encoder's curve gives {most:.4f} at most; give less"
            )
        return cosine

    def save(self, folder: str | Path) -> None:
        """Writes the calibration into its encoder's folder; raises `InputError` if the folder can't be written."""
        folder, text = Path(folder), self.model_dump_json(indent=2) + "\n"
        sums = folder / CHECKSUMS
        if not sums.exists():
            write_text(folder / CALIBRATION, text)
            return
        others = [
            line
            for line in sums.read_text("utf-8").splitlines(True)
            if not line.endswith(f"  {CALIBRATION}\n")
        ]
        write_text(sums, "".join(others))  # first: a killed process leaves no wrong checksum
        write_text(folder / CALIBRATION, text)
        listed = ""
        while (
            written := checksums(folder, [CALIBRATION])
        ) != listed:  # maybe by another process, meanwhile
            write_text(sums, "".join([*others, listed := written]))


def required(calibration: Calibration | None) -> Calibration:
    """The calibration; raises `InputError` if there is none."""
    if calibration is None:
        raise InputError(
            "the encoder has no calibration, or one for other weights, pooling or prompt, so it gives no probability; "
            "score pairs with isotune label, and calibrate by them: isotune evaluate ENCODER --tasks FILE --calibrate"
        )
    return calibration

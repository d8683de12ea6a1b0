"""What a cosine of an encoder means: the probability that two sentences mean the same.

`isotune.calibrate` fits a logistic curve to pairs that people have scored. The curve holds for one
encoder, which the fingerprint names. All commands and the server turn cosines into probabilities
here.
"""

import math
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, PositiveFloat

from isotune.errors import InputError
from isotune.files import CHECKSUMS, checksums, write_text

# The file in an encoder's folder.
CALIBRATION = "calibration.json"


class Calibration(BaseModel):
    """The probability is 1 / (1 + exp(-slope (cosine - threshold)))."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    slope: PositiveFloat
    threshold: float
    """The cosine at which the probability is 0.5."""
    low: float
    """The lower end of the threshold's 95 % interval."""
    high: float
    """The upper end of that interval."""
    pairs: int
    """The number of pairs to which the curve was fitted."""
    fingerprint: str
    """The fingerprint of the encoder."""

    def probability(self, cosines: ArrayLike) -> NDArray[np.float64]:
        """The probabilities of cosines of any shape, in that shape."""
        from scipy.special import expit

        return expit(self.slope * (np.asarray(cosines, np.float64) - self.threshold))

    def cosine(self, probability: float) -> float:
        """The least cosine, at most 1, with at least this probability.

        Raises:
            InputError: no cosine has this probability.
        """
        if not 0 < probability < 1:
            raise InputError(f"probability {probability:g}: a number above 0 and below 1 is needed")
        cosine = self.threshold + math.log(probability / (1 - probability)) / self.slope
        if cosine > 1:
            most = self.probability(1.0)
            raise InputError(
                f"probability {probability:g}: this encoder's curve gives {most:.4f} at most; give "
                "less"
            )
        return cosine

    def save(self, folder: str | Path) -> None:
        """Writes the calibration into its encoder's folder.

        Raises:
            InputError: the folder can't be written.
        """
        folder = Path(folder)
        text = self.model_dump_json(indent=2) + "\n"
        sums = folder / CHECKSUMS
        if not sums.exists():
            write_text(folder / CALIBRATION, text)
            return
        lines = sums.read_text("utf-8").splitlines(keepends=True)
        others = "".join(line for line in lines if not line.endswith(f"  {CALIBRATION}\n"))
        # The old checksum goes first, so that a killed process leaves no wrong one.
        write_text(sums, others)
        write_text(folder / CALIBRATION, text)
        # Another process may write the calibration meanwhile.
        listed = ""
        line = checksums(folder, [CALIBRATION])
        while line != listed:
            write_text(sums, others + line)
            listed = line
            line = checksums(folder, [CALIBRATION])


def required(calibration: Calibration | None) -> Calibration:
    """The calibration; raises `InputError` if there is none."""
    if calibration is None:
        raise InputError(
            "the encoder has no calibration, or one for other weights, pooling or prompt, so it "
            "gives no probability; score pairs with isotune label, and calibrate by them: isotune "
            "evaluate ENCODER --tasks FILE --calibrate"
        )
    return calibration

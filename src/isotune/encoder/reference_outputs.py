"""Reference outputs: the token ids and vectors of eight texts, kept when an encoder was saved.

A copy that gives others is broken, by another release of a library or an edited file. The
tolerances are far above what threads, processors and rounding change, and below what another
pooling or layer changes (docs/reliability.md).
"""

from functools import cache
from importlib.metadata import version
from typing import Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

# The file in an encoder's folder.
REFERENCE_OUTPUTS = "anchors.json"
TEXTS = (
    "A dog runs.",
    "How do I reset the device after error E-1042?",
    "THE QUARTERLY REPORT, 2024-12-31: +3.5 % (net)",
    "Zürich's cafés aren't open; naïve façade, coöperate!",
    "이 문장은 짧아요.",
    "犬が公園で走っています。",
    "x = [i**2 for i in range(10)]  # squares",
    "👍 see https://example.com/a?b=1&c=%20\u200b #ok",
)
# The tolerances of float32 and of other types, as shares of the length of a vector.
FINE = 1e-3
COARSE = 0.1


@cache
def versions() -> dict[str, str]:
    """The releases of the libraries that decide the vectors."""
    return {name: version(name) for name in ("tokenizers", "torch", "transformers")}


class ReferenceOutputs(BaseModel):
    """What an encoder gives for some texts."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    texts: tuple[str, ...]
    ids: list[list[int]]
    vectors: list[list[float]]
    """The vectors of all texts, or none."""
    dtype: str
    """The type of the pretrained model."""
    versions: dict[str, str] = Field(default_factory=versions)

    @model_validator(mode="after")
    def _has_outputs_of_each_text(self) -> Self:
        if len(self.ids) != len(self.texts) or len(self.vectors) not in (0, len(self.texts)):
            raise ValueError("each text needs its ids, and its vector if there are vectors")
        if len({len(vector) for vector in self.vectors}) > 1:
            raise ValueError("the vectors have different numbers of features")
        return self

    def changed(self, now: Self) -> str:
        """What the encoder gives `now` that it did not give then, in a line.

        The line is empty if nothing differs.
        """
        problem = self._changed_tokens(now) or self._changed_vectors(now)
        if not problem:
            return ""
        saved = ", ".join(f"{name} {release}" for name, release in self.versions.items())
        return f"{problem}; it was saved with {saved}"

    def _changed_tokens(self, now: Self) -> str:
        for text, ids, ids_now in zip(self.texts, self.ids, now.ids, strict=True):
            if ids != ids_now:
                return f"its tokenizer makes other tokens of {text!r}"
        return ""

    def _changed_vectors(self, now: Self) -> str:
        if not self.vectors or not now.vectors:
            return ""
        before = np.array(self.vectors)  # [n, d]
        after = np.array(now.vectors)  # [n, d]
        if before.shape != after.shape:
            return f"its vectors have {after.shape[1]} features, not {before.shape[1]}"
        tolerance = COARSE
        if self.dtype == now.dtype == "float32":
            tolerance = FINE
        shares = np.linalg.norm(after - before, axis=1) / np.linalg.norm(before, axis=1)  # [n]
        largest = shares.max()
        if largest > tolerance:
            return (
                f"its vectors are off by {largest:.1g} of their length, where up to {tolerance:g} "
                "is right"
            )
        return ""

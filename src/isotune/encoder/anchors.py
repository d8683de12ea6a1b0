"""Anchors: eight texts with the token ids and vectors that an encoder gave when it was saved.

A copy that gives others is broken, by another release of a library or an edited file. The tolerances are far above what
threads, processors and rounding change, and below what another pooling or layer changes (docs/reliability.md).
"""

from functools import cache
from importlib.metadata import version
from typing import Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

ANCHORS = "anchors.json"  # in an encoder's folder
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
FINE, COARSE = (
    1e-3,
    0.1,
)  # tolerances of float32 and of other types, as shares of the length of a vector


@cache  # for some milliseconds at each load of an encoder
def versions() -> dict[str, str]:
    """The releases of the libraries that decide the vectors."""
    return {name: version(name) for name in ("tokenizers", "torch", "transformers")}


class Anchors(BaseModel):
    """What an encoder gives for some texts."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    texts: tuple[str, ...]
    ids: list[list[int]]
    vectors: list[list[float]]  # those of all texts, or none
    dtype: str  # of the pretrained model
    versions: dict[str, str] = Field(default_factory=versions)

    def changed(self, now: Self) -> str:
        """What the encoder gives `now` that it did not give then, in a line; empty if nothing differs."""
        pairs = zip(self.texts, self.ids, now.ids, strict=True)
        problem = next(
            (
                f"its tokenizer makes other tokens of {text!r}"
                for text, old, new in pairs
                if old != new
            ),
            "",
        )
        if self.vectors and now.vectors and not problem:
            before, after = np.array(self.vectors), np.array(now.vectors)
            most = FINE if self.dtype == now.dtype == "float32" else COARSE
            if before.shape != after.shape:
                problem = f"its vectors have {after.shape[1]} features, not {before.shape[1]}"
            elif (
                off := (
                    np.linalg.norm(after - before, axis=1) / np.linalg.norm(before, axis=1)
                ).max()
            ) > most:
                problem = f"its vectors are off by {off:.1g} of their length, where up to {most:g} is right"
        saved = ", ".join(f"{name} {release}" for name, release in self.versions.items())
        return f"{problem}; it was saved with {saved}" if problem else ""

"""The exception of a training that can't go on."""

from __future__ import annotations

from pathlib import Path

from isotune.errors import InputError


class TrainingFailed(InputError):
    """The loss or the encoder's vectors are not finite.

    Attributes:
        encoder: the folder of the best encoder so far; None if there is none.
    """

    def __init__(self, reason: str, encoder: Path | None = None) -> None:
        super().__init__(reason)
        self.encoder = encoder

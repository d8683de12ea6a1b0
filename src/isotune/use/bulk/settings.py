"""How vectors are made of texts, and what they are written as."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.kernels import Precision
from isotune.use.quantization import Kind, NumberFormat, Ranges


@dataclass(frozen=True)
class Settings:
    """What a user may choose where texts are encoded in bulk."""

    encoder: str
    """A folder, or a name on the hub."""
    precision: Precision | None = None
    normalize: bool = False
    """Whether vectors are scaled to length 1; those that become bytes always are."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """{"sentence": column} where the column of the text has no usual name."""
    dimensions: int | None = None
    """How many features of a vector are kept; None for all."""
    vectors: Kind = "float32"
    """What vectors are written as."""
    ranges: Path | None = None
    """The file of the ranges, for int8."""

    @property
    def scales(self) -> bool:
        """Whether vectors are scaled to length 1."""
        return self.normalize or self.vectors == "int8"

    def load(self) -> tuple[Encoder, NumberFormat]:
        """The encoder, and how its vectors are written.

        Raises:
            InputError: the encoder can't be loaded; or there are ranges that are not of its
                vectors, or of no use.
        """
        if self.ranges is None:
            encoder = self._encoder()
            return encoder, self._number_format(encoder)
        if self.vectors != "int8":
            raise InputError(f"ranges are for int8 vectors, not for {self.vectors}; leave them out")
        ranges = Ranges.read(self.ranges)
        encoder = self._encoder()
        ranges.check(encoder, self.ranges)
        return encoder, NumberFormat(self.vectors, ranges.fingerprint, ranges)

    def _number_format(self, encoder: Encoder) -> NumberFormat:
        """How vectors are written without ranges of an earlier file."""
        if self.vectors == "int8":
            return NumberFormat(self.vectors, encoder.fingerprint())
        return NumberFormat(self.vectors)

    def _encoder(self) -> Encoder:
        return Encoder.load(self.encoder, precision=self.precision, dimensions=self.dimensions)

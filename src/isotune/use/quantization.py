"""Vectors as bytes and as bits, a quarter and a thirty-second of the size of float32.

A byte (int8) has the place of a number between the least and the greatest value that its feature
has in a sample of vectors. Vectors of one index, and its queries, need the same ranges, so these
are kept in a file. A bit (binary) says whether a number is above 0, and needs no ranges. Both are
those of sentence-transformers' `quantize_embeddings`, where "binary" is called "ubinary".
"""

from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from isotune.encoder.encoder import Encoder
from isotune.encoder.stream import Vectors
from isotune.errors import InputError, as_input_error, invalid, unknown
from isotune.files import write_text

Kind = Literal["float32", "int8", "binary"]
"""What vectors are written as."""
Numbers = NDArray[Any]
"""Vectors as they are written."""
# The steps between the least and the greatest value of a feature.
STEPS = 255


def check_kind(kind: str) -> None:
    """Refuses a name of vectors that there are not."""
    kinds = get_args(Kind)
    if kind not in kinds:
        raise unknown("kind of vectors", str(kind), kinds)


class Ranges(BaseModel):
    """The least and the greatest value of each feature, in a sample of vectors of length 1."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    fingerprint: str
    """That of the encoder."""
    texts: int
    """How many texts the sample has."""
    least: tuple[float, ...]
    greatest: tuple[float, ...]

    @classmethod
    def of(cls, vectors: Vectors, fingerprint: str) -> Self:
        """The ranges of a sample [n, d] of an encoder's vectors."""
        return cls(
            fingerprint=fingerprint,
            texts=len(vectors),
            least=tuple(vectors.min(axis=0).tolist()),
            greatest=tuple(vectors.max(axis=0).tolist()),
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads what `save` has written."""
        with as_input_error((OSError, UnicodeDecodeError), f"{path}: it can't be read"):
            content = path.read_text("utf-8")
        try:
            ranges = cls.model_validate_json(content)
        except ValidationError as error:
            raise invalid(f"{path}: these are no ranges", error) from error
        if len(ranges.least) != len(ranges.greatest):
            raise InputError(f"{path}: it has other features for least than for greatest")
        return ranges

    def save(self, path: Path) -> None:
        """Writes a JSON file."""
        write_text(path, self.model_dump_json() + "\n")

    def check(self, encoder: Encoder, path: Path) -> None:
        """Refuses ranges, of this file, of another encoder's vectors."""
        if self.fingerprint != encoder.fingerprint():
            raise InputError(
                f"{path}: the ranges are of another encoder, or of vectors with another number of "
                "features; give the file that was written with vectors of this encoder"
            )

    def bytes_of(self, vectors: Vectors) -> NDArray[np.int8]:
        """Vectors [n, d] of length 1 as int8 [n, d], from -128 to 127.

        A number outside of the range of its feature becomes the nearest end.
        """
        least = np.array(self.least, np.float32)  # [d]
        steps = (np.array(self.greatest, np.float32) - least) / STEPS  # [d]
        # A feature that never varies has one value.
        steps[steps == 0] = 1
        places = np.clip(np.floor((vectors - least) / steps), 0, STEPS)  # [n, d]
        return (places - 128).astype(np.int8)


def bits_of(vectors: Vectors) -> NDArray[np.uint8]:
    """The signs of vectors [n, d] as bits, eight in a byte: uint8 [n, d / 8], rounded up."""
    return np.packbits(vectors > 0, axis=-1)


class NumberFormat:
    """How vectors are written."""

    def __init__(self, kind: Kind, fingerprint: str = "", ranges: Ranges | None = None) -> None:
        """Without ranges, int8 takes those of the first vectors that it gets.

        The fingerprint is that of the encoder, which only these ranges need.

        Raises:
            InputError: there is no such kind.
        """
        check_kind(kind)
        self.kind = kind
        self.fingerprint = fingerprint
        self.ranges = ranges

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of a number; of binary that of eight."""
        types = {"float32": "<f4", "int8": "i1", "binary": "u1"}
        return np.dtype(types[self.kind])

    def width(self, dimension: int) -> int:
        """The numbers of a vector with this many features."""
        if self.kind == "binary":
            return -(-dimension // 8)
        return dimension

    def arrow_type(self, dimension: int) -> pa.DataType:
        """The type of a column of vectors with this many features."""
        return pa.list_(pa.from_numpy_dtype(self.dtype), self.width(dimension))

    def written(self, vectors: Vectors) -> Numbers:
        """Vectors [n, d] as they are written."""
        if self.kind == "binary":
            return bits_of(vectors)
        if self.kind == "float32":
            return vectors.astype(self.dtype, order="C", copy=False)
        if self.ranges is None:
            self.ranges = Ranges.of(vectors, self.fingerprint)
        return self.ranges.bytes_of(vectors)


FLOAT32 = NumberFormat("float32")


def ranges_beside(path: Path) -> Path:
    """The file beside a file of vectors that keeps their ranges: vectors.ranges.json."""
    return path.with_suffix(".ranges.json")

"""What every engine calls.

Ray Data, Spark, Daft and `datasets` give tables to it, and get them back with vectors.
"""

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.kernels import Precision
from isotune.kernels.cpu.memory import tune_process


class AddVectors:
    """Adds a column of vectors to Arrow tables: `AddVectors("my-encoder")(table)`.

    Objects can be sent to other processes. The encoder is not sent: each process loads it once,
    with its first table.
    """

    def __init__(
        self,
        encoder: str,
        column: str = "text",
        into: str = "vector",
        *,
        normalize: bool = False,
        precision: Precision | None = None,
        dimensions: int | None = None,
    ) -> None:
        """Loads nothing yet.

        Args:
            encoder: a folder or a name on the hub, which every process can read.
            column: the column of the texts, which get the encoder's usual prompt. A row without a
                text gets no vector.
            into: the name of the new column.
            normalize: scale each vector to length 1.
            precision: as `Encoder.load` has it.
            dimensions: as `Encoder.load` has them.
        """
        self.name = encoder
        self.column = column
        self.into = into
        self.normalize = normalize
        self.precision = precision
        self.dimensions = dimensions

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder of this process."""
        tune_process()
        return Encoder.load(self.name, precision=self.precision, dimensions=self.dimensions)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        state.pop("encoder", None)
        return state

    def __call__(self, table: pa.Table) -> pa.Table:
        """The table with the vectors of its rows."""
        if self.column not in table.column_names or self.into in table.column_names:
            names = ", ".join(table.column_names)
            raise InputError(
                f"AddVectors({self.column!r} into {self.into!r}): the table has the columns {names}"
            )
        texts = table[self.column]
        vectors = self.encoder.encode(texts.drop_null().to_pylist(), normalize=self.normalize)
        whole = np.zeros((len(texts), self.encoder.dimension), np.float32)
        missing = np.asarray(texts.is_null())
        whole[~missing] = vectors
        column = pa.FixedSizeListArray.from_arrays(
            whole.ravel(), self.encoder.dimension, mask=pa.array(missing)
        )
        return table.append_column(self.into, column)

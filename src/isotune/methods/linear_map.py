"""A linear map to the vectors of a teacher, by least squares.

The map adds a linear layer to an encoder, and changes nothing else. It needs no steps: the squared
distances of the mapped vectors from those of the teacher, which have length 1, are as small as they
can be over the text, with a little weight on small maps (ridge regression). Then the encoder can
search among documents that the teacher has encoded, and training goes on from there (`Distil`).
"""

from collections.abc import Sequence

import torch
from sklearn.linear_model import Ridge
from torch import Tensor

from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense, Normalize
from isotune.errors import InputError, counted
from isotune.methods.method import Additions, ClosedForm
from isotune.methods.options import LinearMapOptions

RIDGE = 0.001
"""The weight on small maps, as a share of the mean variance of a feature: docs/smaller.md."""


class LinearMap(ClosedForm):
    """A linear head that maps the vectors to those of a teacher."""

    options: LinearMapOptions
    needs_text = True

    def __init__(self, options: LinearMapOptions, encoder: Encoder) -> None:
        """Loads the teacher.

        Raises:
            InputError: the teacher can't be loaded, or there is not one.
        """
        super().__init__(options, encoder)
        teacher = load_only(options.teachers)
        # The encoder will ask, where the teacher has encoded the documents.
        self.teachers = [teacher.prompted("query")]
        self.space_of = teacher.fingerprint()
        self.adds = layer_to(encoder, teacher)
        self._targets: Tensor | None = None

    def teach(self, targets: Tensor) -> None:
        """Gets the teacher's vectors [N, D] of all texts."""
        self._targets = targets

    def fit(self, encoder: Encoder, vectors: Tensor) -> None:
        """Computes the map from the pooled vectors [N, d] of the text, after the earlier heads."""
        assert self._targets is not None, "the teacher has encoded the texts"
        *_, head, _ = encoder.heads
        features = encoder.heads.first(len(encoder.heads) - 1).before_last(vectors)  # [N, d]
        head.load_state_dict(linear_map(features, self._targets).state_dict())


def linear_map(vectors: Tensor, targets: Tensor) -> Dense:
    """The ridge regression of targets [N, D] on vectors [N, d], as a layer d -> D."""
    x = vectors.double().numpy()
    variance = x.var(axis=0).mean()
    found = Ridge(alpha=RIDGE * len(x) * variance).fit(x, targets.double().numpy())
    head = Dense(x.shape[1], targets.shape[1], activation="Identity")
    with torch.no_grad():
        head.linear.weight.copy_(torch.from_numpy(found.coef_))
        head.linear.bias.copy_(torch.from_numpy(found.intercept_))
    return head


def layer_to(encoder: Encoder, teacher: Encoder) -> Additions:
    """A new linear layer that gives the encoder's vectors the teacher's size, and length 1."""
    layer = Dense(encoder.dimension, teacher.dimension, activation="Identity")
    return Additions(heads=(layer, Normalize()))


def load_only(names: Sequence[str]) -> Encoder:
    """Loads the teacher whose vectors are learned.

    Raises:
        InputError: it can't be loaded, or there is not one alone.
    """
    if len(names) != 1:
        raise InputError(
            f"{counted(len(names), 'teacher')}: the encoder learns the vectors of one other "
            "encoder; name it by --teachers, or by teachers in Python and recipes"
        )
    return Encoder.load(names[0])

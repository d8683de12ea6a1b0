"""The negative log-likelihood of a normalising flow, as BERT-flow trains it and BERT-CF (L_flow, section 4.2).

The prior is the standard normal distribution. The unit is that of Glow's and BERT-flow's code, bits for each feature,
where BERT-CF's formula has nats for all of them: the same for a flow by itself, but not beside another loss, where
nats of 768 features would leave the other without effect.
"""

from __future__ import annotations

import math

from torch import Tensor

from isotune.losses.precision import in_float32


@in_float32
def bits_per_dimension(z: Tensor, log_determinant: Tensor) -> Tensor:
    """The mean over vectors of -(log N(z; 0, I) + log |det dz/dx|) / (d log 2).

    Args:
        z: [N, d], what the flow made of the vectors x.
        log_determinant: of its Jacobian; a scalar if it is the same for all vectors, or else [N].

    Returns:
        A scalar, which may well be negative: a density can be greater than 1.
    """
    log_prior = -0.5 * (z.square() + math.log(2 * math.pi)).sum(1)  # [N]
    return -(log_prior + log_determinant).mean() / (z.shape[1] * math.log(2))

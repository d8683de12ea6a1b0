"""A normalising flow on sentence vectors: Glow (Kingma and Dhariwal, 2018) for vectors instead of images.

BERT-flow (Li et al., 2020) and BERT-CF (section 4.2) map the vectors of a language model to a standard normal
distribution by an invertible function, whose parameters maximise the vectors' likelihood
log N(z; 0, I) + log |det dz/dx|. A step of the flow is

    ActNorm -> mixing of the features -> additive coupling

and after `depth` steps, which are a level, the second half of the features is finished and the first goes on:

- BERT-flow as released: 3 levels of 3 steps, mixed by reversing the features.
- BERT-CF: 3 steps ("blocks") in one level, mixed by a learned matrix in LU form.

Two things always hold: `inverse` undoes `forward`, and since a coupling only adds, the determinant of the Jacobian is
the same for every vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn

from isotune.encoder.heads.head import Head
from isotune.errors import InputError

Mixing = Literal["reversal", "lu"]
# Scales are learned as exp(3 * log_scale), which speeds them up (Glow's code and BERT-flow's).
LOG_SCALE_FACTOR = 3.0


class ActNorm(nn.Module):
    """(x + bias) * exp(3 log_scale), a bias and a scale for each feature (Glow, section 3.1).

    The first batch it is trained on comes out with mean 0 and variance 1: it sets both. Until then it is the identity.
    """

    initialised: Tensor

    def __init__(self, dimension: int, initialised: bool = False) -> None:
        """`initialised`: stay the identity at the start, whatever the first batch is."""
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(dimension))
        self.log_scale = nn.Parameter(torch.zeros(dimension))
        self.register_buffer("initialised", torch.tensor(initialised))  # a buffer: checkpoints keep it

    def forward(self, x: Tensor) -> Tensor:
        """[N, d] -> [N, d]."""
        if self.training and not self.initialised:
            self._initialise(x.detach())
        return (x + self.bias) * (LOG_SCALE_FACTOR * self.log_scale).exp()

    def inverse(self, y: Tensor) -> Tensor:
        """[N, d] -> [N, d]."""
        return y * (-LOG_SCALE_FACTOR * self.log_scale).exp() - self.bias

    def log_determinant(self) -> Tensor:
        """The log of |det dy/dx|: a scalar."""
        return LOG_SCALE_FACTOR * self.log_scale.sum()

    @torch.no_grad()
    def _initialise(self, x: Tensor) -> None:
        deviation = x.std(0, correction=0)
        deviation = deviation.where(deviation > 1e-6, 1.0)  # a feature that never varies stays as it is
        self.bias.copy_(-x.mean(0))
        self.log_scale.copy_(-deviation.log() / LOG_SCALE_FACTOR)
        self.initialised.fill_(True)


class Reversal(nn.Module):
    """The features in reverse order, which gives every coupling the other half to change."""

    def forward(self, x: Tensor) -> Tensor:
        """[N, d] -> [N, d]."""
        return x.flip(-1)

    inverse = forward

    def log_determinant(self) -> float:
        """The log of |det dy/dx|."""
        return 0.0


class LinearLU(nn.Module):
    """W x with W = P L (U + diag(s)), on vectors what an invertible 1x1 convolution is on images (Glow, section 3.2).

    P is a fixed permutation, L lower triangular with ones on its diagonal, U strictly upper triangular; the signs of s
    are fixed. W starts as a random rotation.
    """

    permutation: Tensor
    sign: Tensor

    def __init__(self, dimension: int) -> None:
        super().__init__()
        rotation = torch.linalg.qr(torch.randn(dimension, dimension, dtype=torch.float64)).Q
        p, lower, upper = torch.linalg.lu(rotation)
        s = upper.diagonal()
        self.register_buffer("permutation", p.argmax(1))  # row i of P has its 1 in this column
        self.register_buffer("sign", s.sign().float())
        self.log_s = nn.Parameter(s.abs().log().float())
        self.lower = nn.Parameter(lower.tril(-1).float())
        self.upper = nn.Parameter(upper.triu(1).float())

    def forward(self, x: Tensor) -> Tensor:
        """[N, d] -> [N, d]."""
        return x @ self._matrix().T

    def inverse(self, y: Tensor) -> Tensor:
        """[N, d] -> [N, d]."""
        # In float64: what is left of the error is the forward pass's rounding.
        result: Tensor = torch.linalg.solve(self._matrix().double(), y.T.double()).T.to(y.dtype)
        return result

    def log_determinant(self) -> Tensor:
        """The log of |det W|: a scalar."""
        return self.log_s.sum()

    def _matrix(self) -> Tensor:
        """W, [d, d]. Multiplied out: a rotation's factors by themselves are ill-conditioned."""
        lower = self.lower.tril(-1) + torch.ones_like(self.log_s).diag()
        upper = self.upper.triu(1) + (self.sign * self.log_s.exp()).diag()
        return (lower @ upper)[self.permutation]


class AdditiveCoupling(nn.Module):
    """The first half of the features stays, and a network of it is added to the second (Dinh et al., 2014).

    The network has three layers, each with an ActNorm (BERT-flow's code; BERT-CF, section 4.2). The last layer starts
    at 0, and the coupling as the identity. Its determinant is 1.
    """

    def __init__(self, dimension: int, width: int) -> None:
        super().__init__()
        self.kept = dimension // 2
        first, second = nn.Linear(self.kept, width, bias=False), nn.Linear(width, width, bias=False)
        last = nn.Linear(width, dimension - self.kept, bias=False)
        nn.init.normal_(first.weight, std=0.05)
        nn.init.normal_(second.weight, std=0.05)
        nn.init.zeros_(last.weight)
        # All outputs of the last layer are 0 at the start: there is no variance to bring to 1.
        norm = ActNorm(dimension - self.kept, initialised=True)
        self.shift = nn.Sequential(first, ActNorm(width), nn.ReLU(), second, ActNorm(width), nn.ReLU(), last, norm)

    def forward(self, x: Tensor) -> Tensor:
        """[N, d] -> [N, d]."""
        kept, changed = x[:, : self.kept], x[:, self.kept :]  # [N, d // 2], [N, d - d // 2]
        return torch.cat([kept, changed + self.shift(kept)], dim=1)

    def inverse(self, y: Tensor) -> Tensor:
        """[N, d] -> [N, d]."""
        kept, changed = y[:, : self.kept], y[:, self.kept :]  # [N, d // 2], [N, d - d // 2]
        return torch.cat([kept, changed - self.shift(kept)], dim=1)


class Step(nn.Module):
    """ActNorm, then the mixing, then the coupling."""

    def __init__(self, dimension: int, mixing: Mixing, width: int) -> None:
        super().__init__()
        self.norm = ActNorm(dimension)
        self.mixing = LinearLU(dimension) if mixing == "lu" else Reversal()
        self.coupling = AdditiveCoupling(dimension, width)

    def forward(self, x: Tensor) -> Tensor:
        """[N, d] -> [N, d]."""
        result: Tensor = self.coupling(self.mixing(self.norm(x)))
        return result

    def inverse(self, y: Tensor) -> Tensor:
        """[N, d] -> [N, d]."""
        return self.norm.inverse(self.mixing.inverse(self.coupling.inverse(y)))

    def log_determinant(self) -> Tensor:
        """The log of |det dy/dx|: a scalar."""
        return self.norm.log_determinant() + self.mixing.log_determinant()


class NormalizingFlow(Head):
    """The flow as a head of an encoder: [N, d] -> [N, d].

    Of a vector of 768 features and 3 levels, z is (384 finished after the first level, 192 after the second, 192).
    """

    type_name = "isotune.encoder.st_modules.Flow"

    def __init__(
        self, dimension: int, mixing: Mixing = "reversal", levels: int = 3, depth: int = 3, width: int = 32
    ) -> None:
        """Makes a flow that is not yet initialised: its first batch in training does that.

        Args:
            dimension: d.
            mixing: "reversal" of the features, or "lu", a learned matrix.
            levels: after each level but the last, half of the features is finished.
            depth: steps of a level.
            width: of the couplings' hidden layers.

        Raises:
            InputError: the last level would have a single feature, of which a coupling has no half.
        """
        super().__init__()
        self.settings = {"dimension": dimension, "mixing": mixing, "levels": levels, "depth": depth, "width": width}
        # Features that each step works on.
        self.sizes = [dimension >> level for level in range(levels) for _ in range(depth)]
        if self.sizes[-1] < 2:
            raise InputError(
                f"a flow of {levels} levels needs vectors of {2**levels} features or more, not {dimension}"
            )
        self.steps = nn.ModuleList(Step(size, mixing, width) for size in self.sizes)

    @property
    def dimensions(self) -> tuple[int, int]:
        """The same number twice."""
        return self.sizes[0], self.sizes[0]

    def config(self) -> dict[str, Any]:
        """What `from_config` makes it again from."""
        return self.settings

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> NormalizingFlow:
        """A flow with these settings and new weights."""
        return cls(**config)

    def forward(self, x: Tensor) -> Tensor:
        """From x [N, d] to z [N, d]."""
        finished = []
        with torch.autocast(x.device.type, enabled=False):  # bfloat16 would be too coarse to be undone
            for size, step in zip(self.sizes, self._in_order, strict=True):
                finished.append(x[:, size:])  # [N, 0] but for the first step of a level
                x = step(x[:, :size])
        return torch.cat([*finished, x], dim=1)

    def inverse(self, z: Tensor) -> Tensor:
        """From z [N, d] to x [N, d]."""
        widths = [size - following for size, following in pairwise(self.sizes)]
        parts: tuple[Tensor, ...] = z.split([*widths, self.sizes[-1]], dim=1)
        *finished, x = parts
        for step, rest in zip(reversed(self._in_order), [z[:, :0], *reversed(finished)], strict=True):
            x = step.inverse(torch.cat([x, rest], dim=1))
        return x

    def log_determinant(self) -> Tensor:
        """The log of |det dz/dx|: a scalar, the same for all x."""
        return torch.stack([step.log_determinant() for step in self._in_order]).sum()

    @property
    def _in_order(self) -> list[Step]:
        return [step for step in self.steps if isinstance(step, Step)]

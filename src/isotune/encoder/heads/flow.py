"""A normalising flow on sentence vectors.

It is Glow (Kingma and Dhariwal, 2018) for vectors instead of images.

BERT-flow (Li et al., 2020) and BERT-CF (section 4.2) map the vectors x of a language model to a
standard normal distribution by an invertible function z(x). Its parameters maximise the likelihood
of the vectors, log N(z; 0, I) + log |det dz/dx|. A step of the flow is

    ActNorm -> mixing of the features -> additive coupling

`depth` steps are a level. After a level, the second half of the features is finished, and the first
half goes on:

- BERT-flow as released: 3 levels of 3 steps, mixed by reversing the features.
- BERT-CF: 3 steps ("blocks") in one level, mixed by a learned matrix in LU form.

Two things always hold: every part can be inverted; and the determinant of the Jacobian is the same
for every vector, since a coupling only adds.
"""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from isotune.encoder.heads.head import Head
from isotune.errors import InputError

Mixing = Literal["reversal", "lu"]
# Scales are learned as exp(3 * log_scale), which makes them learn faster (Glow's code and
# BERT-flow's).
LOG_SCALE_FACTOR = 3.0


class ActNorm(nn.Module):
    """(x + bias) * exp(3 log_scale), a bias and a scale for each feature (Glow, section 3.1).

    The layer is the identity until its first batch in training. That batch sets bias and scale so
    that each feature of its output has mean 0 and variance 1.
    """

    initialised: Tensor

    def __init__(self, dimension: int, initialised: bool = False) -> None:
        """Makes the layer for `dimension` features.

        With `initialised`, the first batch sets nothing.
        """
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(dimension))
        self.log_scale = nn.Parameter(torch.zeros(dimension))
        # It is a buffer, so that checkpoints keep it.
        self.register_buffer("initialised", torch.tensor(initialised))
        # The same, known without asking a GPU.
        self._ready = initialised

    def forward(self, x: Tensor) -> Tensor:
        """[N, d] -> [N, d]."""
        if self.training and not self._ready:
            if not self.initialised:
                self._initialise(x.detach())
            self._ready = True
        return (x + self.bias) * (LOG_SCALE_FACTOR * self.log_scale).exp()

    def log_determinant(self) -> Tensor:
        """The log of |det dy/dx|, a scalar."""
        return LOG_SCALE_FACTOR * self.log_scale.sum()

    @torch.no_grad()
    def _initialise(self, x: Tensor) -> None:
        deviation = x.std(0, correction=0)
        # A constant feature is not scaled.
        deviation = deviation.where(deviation > 1e-6, 1.0)
        self.bias.copy_(-x.mean(0))
        self.log_scale.copy_(-deviation.log() / LOG_SCALE_FACTOR)
        self.initialised.fill_(True)


class LinearLU(nn.Module):
    """W x with W = P L (U + diag(s)): Glow's invertible 1x1 convolution (section 3.2), for vectors.

    P is a fixed permutation, L is lower triangular with ones on its diagonal, U is strictly upper
    triangular. The signs of s are fixed. W starts as a random rotation.
    """

    permutation: Tensor
    sign: Tensor

    def __init__(self, dimension: int) -> None:
        super().__init__()
        rotation = torch.linalg.qr(torch.randn(dimension, dimension, dtype=torch.float64)).Q
        p, lower, upper = torch.linalg.lu(rotation)
        s = upper.diagonal()
        # Row i of P has its 1 in this column.
        self.register_buffer("permutation", p.argmax(1))
        self.register_buffer("sign", s.sign().float())
        self.log_s = nn.Parameter(s.abs().log().float())
        self.lower = nn.Parameter(lower.tril(-1).float())
        self.upper = nn.Parameter(upper.triu(1).float())

    def forward(self, x: Tensor) -> Tensor:
        """[N, d] -> [N, d]."""
        lower = self.lower.tril(-1) + torch.ones_like(self.log_s).diag()
        upper = self.upper.triu(1) + (self.sign * self.log_s.exp()).diag()
        # W is multiplied out because the single factors of a rotation are ill-conditioned.
        matrix = (lower @ upper)[self.permutation]  # [d, d]
        return x @ matrix.T

    def log_determinant(self) -> Tensor:
        """The log of |det W|, a scalar."""
        return self.log_s.sum()


class AdditiveCoupling(nn.Module):
    """Keeps the first half of the features, and adds a network of it to the second half.

    This is the coupling of Dinh et al. (2014). The network has three layers, each with an ActNorm
    (BERT-flow's code; BERT-CF, section 4.2). Its last layer starts at 0, so the coupling starts as
    the identity. The determinant is 1.
    """

    def __init__(self, dimension: int, width: int) -> None:
        super().__init__()
        self.kept = dimension // 2
        first = nn.Linear(self.kept, width, bias=False)
        second = nn.Linear(width, width, bias=False)
        last = nn.Linear(width, dimension - self.kept, bias=False)
        nn.init.normal_(first.weight, std=0.05)
        nn.init.normal_(second.weight, std=0.05)
        nn.init.zeros_(last.weight)
        # The last layer's output is 0 at the start, so it has no variance that could be brought to
        # 1.
        norm = ActNorm(dimension - self.kept, initialised=True)
        self.shift = nn.Sequential(
            first, ActNorm(width), nn.ReLU(), second, ActNorm(width), nn.ReLU(), last, norm
        )

    def forward(self, x: Tensor) -> Tensor:
        """[N, d] -> [N, d]."""
        first = x[:, : self.kept]  # [N, d // 2]
        second = x[:, self.kept :]  # [N, d - d // 2]
        return torch.cat([first, second + self.shift(first)], dim=1)


class Step(nn.Module):
    """One step of a flow: ActNorm, mixing of the features, coupling."""

    def __init__(self, dimension: int, mixing: Mixing, width: int) -> None:
        super().__init__()
        self.norm = ActNorm(dimension)
        self.mixing: LinearLU | None = None
        if mixing == "lu":
            self.mixing = LinearLU(dimension)
        self.coupling = AdditiveCoupling(dimension, width)

    def forward(self, x: Tensor) -> Tensor:
        """[N, d] -> [N, d]."""
        x = self.norm(x)
        # After the mixing, the coupling changes other features than the one before.
        return self.coupling(self._mix(x))

    def _mix(self, x: Tensor) -> Tensor:
        """[N, d] -> [N, d]: the features in another order, or multiplied by a matrix."""
        if self.mixing is None:
            return x.flip(-1)
        mixed: Tensor = self.mixing(x)
        return mixed

    def log_determinant(self) -> Tensor:
        """The log of |det dy/dx|, a scalar."""
        if self.mixing is None:
            return self.norm.log_determinant()
        return self.norm.log_determinant() + self.mixing.log_determinant()


class NormalizingFlow(Head):
    """The flow as a head of an encoder: [N, d] -> [N, d].

    z holds the features in the order in which they are finished: of 768 features and 3 levels, the
    first 384 are finished after the first level, the next 192 after the second, and the last 192
    after the third.
    """

    type_name = "isotune.encoder.st_modules.Flow"

    def __init__(
        self,
        dimension: int,
        mixing: Mixing = "reversal",
        levels: int = 3,
        depth: int = 3,
        width: int = 32,
    ) -> None:
        """Makes a new flow of `levels` levels of `depth` steps.

        The couplings' hidden layers have `width` features.
        """
        super().__init__()
        self.settings = {
            "dimension": dimension,
            "mixing": mixing,
            "levels": levels,
            "depth": depth,
            "width": width,
        }
        self.dimensions = dimension, dimension
        # The number of features that each step works on.
        self.sizes = [dimension >> level for level in range(levels) for _ in range(depth)]
        if self.sizes[-1] < 2:
            raise InputError(
                f"flow of {levels} levels needs vectors of {2**levels} or more features, not "
                f"{dimension}"
            )
        self.steps = nn.ModuleList(Step(size, mixing, width) for size in self.sizes)

    def config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return self.settings

    def forward(self, x: Tensor) -> Tensor:
        """Maps x [N, d] to z [N, d]."""
        finished = []
        # Rounded to bfloat16, z could not be inverted.
        with torch.autocast(x.device.type, enabled=False):
            for size, step in zip(self.sizes, self.steps, strict=True):
                # This is [N, 0], except at the first step of a level after the first.
                finished.append(x[:, size:])
                x = step(x[:, :size])
        return torch.cat([*finished, x], dim=1)

    def log_determinant(self) -> Tensor:
        """The log of |det dz/dx|, a scalar, which is the same for all x."""
        return torch.stack(
            [step.log_determinant() for step in self.steps if isinstance(step, Step)]
        ).sum()

"""Linear layers in 8-bit integers, for encoding on a CPU.

A layer's weights are rounded once, with a scale for each output feature. Its input is rounded at every call, with a
scale for each token ("dynamic quantisation"). With x = s q and w = t v, where q and v are integers,

    y = s t (q . v) + b

and q . v is exact. oneDNN computes the product and requires an unsigned input: it gets q + 128, and 128 as the number
that stands for 0. Embeddings, attention, GELU and normalisation stay in floating point: in bfloat16 if the CPU has
instructions for it, else in float32.
"""

import hashlib
import threading
import weakref
from collections.abc import Callable

import torch
from torch import Tensor, nn

from isotune.errors import InputError
from isotune.kernels.precision import faster_precision

LARGEST_WEIGHT = 127
LARGEST_INPUT = 126  # with 127, a factor rounded to bfloat16 could make 128, too large for 8 bits
ZERO = 128  # the unsigned number that stands for 0
TINY = 1e-12  # lower bound of a row's largest element, for rows of zeros


class Int8Linear(nn.Module):
    """A linear layer with 8-bit weights; it has no gradient."""

    def __init__(self, linear: nn.Linear, dtype: torch.dtype) -> None:
        """Rounds the weights of a linear layer, for input and output of this type."""
        super().__init__()
        self.digests = {name: digest(tensor) for name, tensor in linear.state_dict().items()}  # before the rounding
        weight = linear.weight.detach().float()  # [out, in]
        self.scales = weight.abs().amax(1).clamp(min=TINY) / LARGEST_WEIGHT  # [out]
        rounded = (weight / self.scales[:, None]).round().to(torch.int8)
        self.weight = torch.ops.onednn.qlinear_prepack(rounded, None)
        self.zeros = torch.zeros_like(self.scales, dtype=torch.int32)  # [out]
        bias = torch.zeros_like(self.scales) if linear.bias is None else linear.bias.detach()
        self.bias = bias.to(dtype)  # [out]

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out], of the layer's type."""
        integers, scales = _last.rounded(x)
        product = torch.ops.onednn.qlinear_pointwise(
            *(integers, 1.0, ZERO),  # input, its scale, the number that stands for 0
            *(self.weight, self.scales, self.zeros),
            *(None, 1.0, 0, self.bias.dtype),  # bias; the output's scale, 0 and type
            *("none", [], ""),  # no operation on the output
        )  # [T, out]
        y: Tensor = torch.addcmul(self.bias, product, scales, out=product).unflatten(0, x.shape[:-1])
        return y


class _Last(threading.local):
    """The last input that a thread has rounded: query, key and value get the same input.

    No model changes the input of a layer in place, so the same tensor has the same numbers.
    """

    def __init__(self) -> None:
        self._input: Callable[[], Tensor | None] = lambda: None  # a weak reference
        self._rounded: tuple[Tensor, Tensor]

    def rounded(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Rounds [..., in] to unsigned integers [T, in], with scales [T, 1] of the input's type."""
        if self._input() is not x:
            self._rounded = _round(x.flatten(0, -2))
            self._input = weakref.ref(x)
        return self._rounded


_last = _Last()


def _round(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rounds [T, in] to unsigned integers, with scales [T, 1] of the input's type."""
    # Numbers without a sign are ordered as their bits, and torch finds the largest integer several times as fast as the
    # largest number in bfloat16.
    bits = torch.int16 if rows.dtype == torch.bfloat16 else torch.int32
    largest = rows.abs().view(bits).amax(1, keepdim=True).view(rows.dtype)  # [T, 1]
    factors = (LARGEST_INPUT / largest.float().clamp(min=TINY)).to(rows.dtype)
    rounded = (rows * factors).round_().to(torch.int8)
    # This adds 128; on floats that would be several times slower.
    return rounded.bitwise_xor_(-ZERO).view(torch.uint8), (1 / factors.float()).to(rows.dtype)


def quantize(model: nn.Module) -> None:
    """Replaces every linear layer of a float32 model by an `Int8Linear`; the rest gets the CPU's faster precision."""
    if not is_exact():
        raise InputError(
            "precision int8: this CPU doesn't multiply 8-bit integers exactly (x86 with VNNI does); use float32 or "
            "bfloat16"
        )
    dtype: torch.dtype = getattr(torch, faster_precision("cpu"))
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Linear(child, dtype))
    for parameter in model.parameters():  # no buffers: angles of rotary positions need float32
        parameter.data = parameter.data.to(dtype)


def is_quantized(model: nn.Module) -> bool:
    """Whether the model has linear layers in 8-bit integers."""
    return any(isinstance(module, Int8Linear) for module in model.modules())


def is_exact() -> bool:
    """Whether this CPU has VNNI: without, sums of two products are cut to 16 bits."""
    has = torch.cpu.get_capabilities()
    return bool(has.get("avx512_vnni") or has.get("avx_vnni"))


def digest(tensor: Tensor) -> str:
    """Hashes a tensor's shape and its values, rounded to bfloat16 if they are floating; returns 64 hexadecimal digits.

    Weights that are loaded in bfloat16 are rounded in the same way, so their digest is that of the float32 weights.
    """
    tensor = tensor.detach().cpu().contiguous()
    if tensor.is_floating_point():
        tensor = tensor.to(torch.bfloat16)
    content = hashlib.sha256(f"{list(tensor.shape)} ".encode())
    content.update(tensor.flatten().view(torch.uint8).numpy().data)
    return content.hexdigest()

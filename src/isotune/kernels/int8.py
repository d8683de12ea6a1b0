"""Linear layers in 8-bit integers, for encoding on a CPU.

A layer's weights are rounded once, with a scale for each output feature. Its input is rounded at every call, with a
scale for each token ("dynamic quantisation"). With x = s q and w = t v, where q and v are integers from -127 to 127,

    y = s t (q . v) + b

and q . v is exact. Embeddings, attention and normalisation stay in float32. oneDNN computes the product and requires an
unsigned input: it gets q + 128, and 128 as the number that stands for 0.
"""

import hashlib

import torch
from torch import Tensor, nn

from isotune.errors import InputError

LARGEST = 127
TINY = 1e-12  # the least scale, for rows of zeros


class Int8Linear(nn.Module):
    """A linear layer with 8-bit weights; it has no gradient."""

    def __init__(self, linear: nn.Linear) -> None:
        """Rounds the weights of a linear layer."""
        super().__init__()
        self.digests = {name: digest(tensor) for name, tensor in linear.state_dict().items()}  # before the rounding
        weight = linear.weight.detach().float()  # [out, in]
        self.scales = (weight.abs().amax(1) / LARGEST).clamp(min=TINY)  # [out]
        rounded = (weight / self.scales[:, None]).round().to(torch.int8)
        self.weight = torch.ops.onednn.qlinear_prepack(rounded, None)
        self.zeros = torch.zeros_like(self.scales, dtype=torch.int32)  # [out]
        self.bias = torch.zeros_like(self.scales) if linear.bias is None else linear.bias.detach().float()  # [out]

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out], float32."""
        rows = x.flatten(0, -2)  # [T, in]
        # Not the largest of abs(): a new tensor as large as the input costs as much as arithmetic.
        largest = torch.maximum(rows.amax(1, keepdim=True), -rows.amin(1, keepdim=True))  # [T, 1]
        scales = (largest / LARGEST).clamp_(min=TINY)
        rounded = (rows / scales).round_().to(torch.int8)
        # This adds 128; on floats that would be several times slower.
        unsigned = rounded.bitwise_xor_(-128).view(torch.uint8)
        product = torch.ops.onednn.qlinear_pointwise(
            *(unsigned, 1.0, LARGEST + 1),  # input, its scale, the number that stands for 0
            *(self.weight, self.scales, self.zeros),
            *(None, 1.0, 0, torch.float32),  # bias; the output's scale, 0 and type
            *("none", [], ""),  # no operation on the output
        )  # [T, out]
        y: Tensor = torch.addcmul(self.bias, product, scales, out=product).unflatten(0, x.shape[:-1])
        return y


def quantize(model: nn.Module) -> None:
    """Replaces every linear layer of a model by an `Int8Linear`."""
    if not is_exact():
        raise InputError(
            "precision int8: this CPU doesn't multiply 8-bit integers exactly (x86 with VNNI does); use float32 or "
            "bfloat16"
        )
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Linear(child))


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

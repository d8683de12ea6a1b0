"""Linear layers with packed weights, for as long as many batches are encoded.

oneDNN reads weights in an order of its own, and by default reorders them at every call. Reordering
them once saves a tenth of the time in float32 and a fifteenth in bfloat16; it pays from the second
batch on, and the results are those of oneDNN bit for bit. With AVX2 alone, float32 weights are not
packed (`pays_packed`). In addition, oneDNN computes a GELU that follows the layer before the output
is written to memory (in bfloat16 also before it is rounded). The layers are changed for the time of
a `with` block only, because a weight may change afterwards.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu
from transformers.activations import GELUActivation

from isotune.kernels.cpu.float32 import pays_packed


@contextmanager
def prepacked(model: nn.Module) -> Iterator[None]:
    """Has a model's linear layers on a CPU compute with packed weights, for a `with` block.

    They compute without gradient.
    """
    changed = []
    for linear, (module, activation) in _linears(model).items():
        if not linear.weight.is_cpu or not _pays(linear.weight.dtype):
            continue
        weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), None)
        module.forward = partial(_linear, weight=weight, bias=linear.bias, activation=activation)
        changed.append(module)
    try:
        yield
    finally:
        for module in changed:
            # Another thread that encodes with this model may have removed it.
            module.__dict__.pop("forward", None)


def _pays(dtype: torch.dtype) -> bool:
    """Whether packed weights of this type are possible and faster here."""
    if dtype == torch.bfloat16:
        return _works(dtype)
    if dtype == torch.float32:
        return pays_packed() and _works(dtype)
    return False


def _linears(model: nn.Module) -> dict[nn.Linear, tuple[nn.Module, str]]:
    """Maps each linear layer to the module whose forward pass is replaced, and to its activation.

    That module is the linear layer itself, or BERT's intermediate layer: a linear layer and a GELU.
    """
    linears: dict[nn.Linear, tuple[nn.Module, str]] = {}
    # A module comes before the modules inside.
    for module in model.modules():
        dense = getattr(module, "dense", None)
        if type(module) is nn.Linear:
            linears.setdefault(module, (module, "none"))
            continue
        activation = getattr(module, "intermediate_act_fn", None)
        if type(dense) is nn.Linear and isinstance(activation, GELUActivation):
            linears[dense] = (module, "gelu")
    return linears


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    """[..., in] -> [..., out]."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, activation, [], "none")


@cache
def _works(dtype: torch.dtype) -> bool:
    """Whether this build of torch multiplies packed weights on this CPU."""
    # The numbers are not random, so nothing is drawn from torch's generator.
    weight = torch.linspace(0, 1, 256).view(16, 16).to(dtype)
    bias = weight[0]
    x = torch.full((1, 16), 1 / 16, dtype=dtype)
    try:
        expected = gelu(nn.functional.linear(x, weight, bias))
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        return torch.allclose(_linear(x, packed, bias, "gelu"), expected, rtol=0.01)
    except (AttributeError, RuntimeError):
        return False

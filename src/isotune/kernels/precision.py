"""Whether this machine computes faster in bfloat16 or in float32.

A CPU with instructions for bfloat16 (avx512_bf16, AMX) multiplies matrices about twice as fast in
it as in float32, or faster; so does a GPU from Ampere on. Others need three to twenty times as
long, because each product is made of float32 instructions. `train` writes the choice into the
recipe of a new run.
"""

import torch

from isotune.kernels import Precision

INSTRUCTIONS = ("avx512_bf16", "amx_bf16")
AMPERE = (8, 0)
"""The compute capability of the first GPUs with such instructions."""


def has_bfloat16(device: str) -> bool:
    """Whether a kind of device has instructions for products in bfloat16.

    Nothing is known of Apple's GPUs (mps), so they have none.
    """
    if device == "cuda":
        return torch.cuda.get_device_capability() >= AMPERE
    if device == "cpu":
        return any(torch.cpu.get_capabilities().get(name) for name in INSTRUCTIONS)
    return False


def resolved(precision: Precision | None, device: str) -> Precision | None:
    """What "auto" is on a kind of device: bfloat16 on GPUs that have it.

    Elsewhere it is None, the type of the saved weights.
    """
    if precision != "auto":
        return precision
    if device == "cuda" and has_bfloat16(device):
        return "bfloat16"
    return None


def warn_of_bfloat16(device: str) -> str:
    """A warning for those who ask for bfloat16 where it is slower than float32; else empty."""
    if has_bfloat16(device):
        return ""
    return (
        "bfloat16 will be slow: this machine has neither avx512_bf16 nor AMX, "
        "nor a GPU from Ampere on"
    )

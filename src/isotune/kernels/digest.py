"""A short hash of a tensor that is the same in float32 and in bfloat16."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor


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

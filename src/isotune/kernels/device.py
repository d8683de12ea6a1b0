"""The device that computes: the CPU, a GPU of Nvidia's or AMD's (cuda), or one of Apple's (mps).

Apple's GPUs are taken only where `ISOTUNE_DEVICE` names them. Every packed batch has a new shape, and on these GPUs
torch keeps memory for each shape (github.com/pytorch/pytorch/issues/181213).
"""

import os

import torch

from isotune.errors import InputError

DEVICE = "ISOTUNE_DEVICE"  # the environment variable that names the kind of device


def default_device() -> str:
    """The kind of device that computes: the one that `ISOTUNE_DEVICE` names, or else cuda where there is one, or cpu.

    Raises:
        InputError: this machine has no device of the kind that is named.
    """
    gpus = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    kinds = [*(kind for kind, there in gpus.items() if there), "cpu"]
    kind = os.environ.get(DEVICE) or ("cuda" if gpus["cuda"] else "cpu")
    if kind not in kinds:
        raise InputError(f"{DEVICE} is {kind!r}; here it can be {' or '.join(kinds)}")
    return kind


def gpu_name() -> str:
    """The GPU that computes; "none" if the CPU computes."""
    kind = default_device()
    return torch.cuda.get_device_name() if kind == "cuda" else "Apple" if kind == "mps" else "none"


def has_float64(device: torch.device | str) -> bool:
    """Whether the device computes in float64; Apple's GPUs don't."""
    return torch.device(device).type in ("cpu", "cuda")

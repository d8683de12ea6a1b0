"""The device that computes: the CPU, a GPU of Nvidia's or AMD's (cuda), or one of Apple's (mps).

Apple's GPUs are taken only where `ISOTUNE_DEVICE` names them. Every packed batch has a new shape, and on these GPUs
torch keeps memory for each shape (github.com/pytorch/pytorch/issues/181213).
"""

import os

import torch

from isotune.errors import InputError

DEVICE = "ISOTUNE_DEVICE"  # the environment variable that names the device, such as cpu or cuda:1


def default_device() -> str:
    """The kind of device that computes: the one that `ISOTUNE_DEVICE` names, or else cuda where there is one, or cpu.

    Of several GPUs, the one with that number computes, or else the one that a launcher gives the process (LOCAL_RANK).

    Raises:
        InputError: this machine has no such device.
    """
    gpus = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    count = torch.cuda.device_count() if gpus["cuda"] else 0
    names = [
        *(kind for kind, there in gpus.items() if there),
        *(f"cuda:{number}" for number in range(count)),
        "cpu",
    ]
    named = os.environ.get(DEVICE) or ("cuda" if gpus["cuda"] else "cpu")
    if named not in names:
        raise InputError(f"{DEVICE} is {named!r}; here it can be {' or '.join(names)}")
    kind, _, number = named.partition(":")
    number = number or os.environ.get("LOCAL_RANK", "")
    if kind == "cuda" and number:
        torch.cuda.set_device(int(number) % count)
    return kind


def gpu_name() -> str:
    """The GPU that computes; "none" if the CPU computes."""
    kind = default_device()
    return torch.cuda.get_device_name() if kind == "cuda" else "Apple" if kind == "mps" else "none"


def has_float64(device: torch.device | str) -> bool:
    """Whether the device computes in float64; Apple's GPUs don't."""
    return torch.device(device).type in ("cpu", "cuda")

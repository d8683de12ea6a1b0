"""The device that computes: the CPU, a GPU of Nvidia's or AMD's (cuda), or one of Apple's (mps).

Apple's GPUs are taken only where `ISOTUNE_DEVICE` names them. Every packed batch has a new shape,
and on these GPUs torch keeps memory for each shape (github.com/pytorch/pytorch/issues/181213).
"""

import os

import torch

from isotune.errors import InputError

DEVICE = "ISOTUNE_DEVICE"
"""The environment variable that names the device, such as cpu or cuda:1."""


def default_device() -> str:
    """The kind of device that computes.

    It is the one that `ISOTUNE_DEVICE` names, or else cuda where there is one, or cpu. Of several
    GPUs, the one with that number computes, or else the one that a launcher gives the process
    (LOCAL_RANK).

    Raises:
        InputError: this machine has no such device.
    """
    count = 0
    default = "cpu"
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        default = "cuda"
    name = os.environ.get(DEVICE) or default
    names = _device_names(count)
    if name not in names:
        raise InputError(f"{DEVICE} is {name!r}; here it can be {' or '.join(names)}")
    kind, _, number = name.partition(":")
    number = number or os.environ.get("LOCAL_RANK", "")
    if kind == "cuda" and number:
        torch.cuda.set_device(int(number) % count)
    return kind


def _device_names(count: int) -> list[str]:
    """The names that a device can have here, where torch has `count` GPUs of kind cuda."""
    names = []
    if torch.cuda.is_available():
        names.append("cuda")
    if torch.backends.mps.is_available():
        names.append("mps")
    names += [f"cuda:{number}" for number in range(count)]
    return [*names, "cpu"]


def gpu_name() -> str:
    """The GPU that computes; "none" if the CPU computes."""
    kind = default_device()
    if kind == "cuda":
        return torch.cuda.get_device_name()
    if kind == "mps":
        return "Apple"
    return "none"


def has_float64(device: torch.device | str) -> bool:
    """Whether the device computes in float64; Apple's GPUs don't."""
    return torch.device(device).type in ("cpu", "cuda")

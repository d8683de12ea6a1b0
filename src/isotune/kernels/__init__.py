"""Code that makes packed batches fast: attention, dropout, matrix products, memory. It knows tensors, not text."""

from typing import TYPE_CHECKING, Literal

from isotune.lazy import lazy

if TYPE_CHECKING:
    from isotune.kernels.device import DEVICE as DEVICE
    from isotune.kernels.device import default_device as default_device
    from isotune.kernels.device import gpu_name as gpu_name

# The number types that an encoder can compute in. They stand here because help of the command line needs no torch.
Precision = Literal["auto", "float32", "bfloat16"]

# Loaded when they are first used, because the module imports torch.
__getattr__ = lazy(__name__, dict.fromkeys(("DEVICE", "default_device", "gpu_name"), "kernels.device"))

"""A process in which torch seems to have an Apple GPU. Tensors on it compute on the CPU, under the rules of a GPU.

An operation on tensors of two devices is an error, and so is a number in float64.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

# isort: off
import tests.conftest  # noqa: F401 (before all else: it sets the environment of huggingface_hub)

# isort: on
import torch
from torch import Tensor, nn
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from isotune.cli import main
from tests.training.steps import assert_same, gradient, make

NAME = "pretend"  # what torch calls the device
INDEXED = {torch.ops.aten.index.Tensor, torch.ops.aten.index_put_.default}  # on a GPU, indices may be on the CPU


class Backend(backend_registration._DummyBackendModule):
    """What torch asks about the kind of device."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]

    def device_count(self) -> int:
        return 1

    def get_rng_state(self, _: int) -> Tensor:
        return torch.zeros(0)

    def set_rng_state(self, _: Tensor, __: int) -> None:
        pass

    def manual_seed(self, _: int) -> None:
        pass


class OnGpu(Tensor):
    """A tensor on the GPU, around one on the CPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    on_cpu: Tensor
    made = 0  # tensors

    @staticmethod
    def __new__(cls, on_cpu: Tensor) -> "OnGpu":
        tensor = Tensor._make_wrapper_subclass(
            *(cls, on_cpu.shape, on_cpu.stride(), on_cpu.storage_offset()), dtype=on_cpu.dtype, device=f"{NAME}:0"
        )
        tensor.on_cpu = on_cpu
        OnGpu.made += 1
        return tensor

    @classmethod
    def __torch_dispatch__(cls, operation: Any, _: Any, args: Any = (), options: Any = None) -> Any:
        return computed(operation, args, options or {})

    def tolist(self) -> Any:
        return self.on_cpu.tolist()

    def __deepcopy__(self, copies: dict[int, Any]) -> Tensor:
        copy = OnGpu(self.on_cpu.detach().clone())
        copies[id(self)] = nn.Parameter(copy, self.requires_grad) if isinstance(self, nn.Parameter) else copy
        return copies[id(self)]

    def data_ptr(self) -> int:
        return self.on_cpu.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.on_cpu.untyped_storage()


class PretendGpu(TorchDispatchMode):
    """Operations that make a tensor, or take one to another device."""

    def __torch_dispatch__(self, operation: Any, _: Any, args: Any = (), options: Any = None) -> Any:
        return computed(operation, args, options or {})


def computed(operation: Any, args: Any, options: dict[str, Any]) -> Any:
    """The result of an operation, on the device that the options name, or else on that of its arguments."""
    tensors = [x for x in tree_leaves((args, options)) if isinstance(x, Tensor)]
    on_gpu = [x for x in tensors if isinstance(x, OnGpu)]
    device = options.get("device")
    result_on_gpu = bool(on_gpu) if device is None else torch.device(device).type == NAME
    together = tree_leaves((args[0], args[2:])) if operation in INDEXED else tensors
    on_cpu = [x for x in together if isinstance(x, Tensor) and not isinstance(x, OnGpu) and x.ndim]
    if on_gpu and on_cpu and operation is not torch.ops.aten.copy_.default:
        raise RuntimeError(f"{operation}: tensors on two devices")
    if result_on_gpu and device is not None:
        options = {**options, "device": "cpu"}
    args, options = tree_map(lambda x: x.on_cpu if isinstance(x, OnGpu) else x, (args, options))
    of_cpu = {id(x.on_cpu): x for x in on_gpu}  # an operation in place returns its argument

    def back(x: Any) -> Any:
        if not isinstance(x, Tensor) or not result_on_gpu:
            return x
        if x.dtype == torch.float64:
            raise TypeError(f"{operation}: float64 on an Apple GPU")
        return of_cpu[id(x)] if id(x) in of_cpu else OnGpu(x)

    return tree_map(back, operation(*args, **options))


def start(printed: Path) -> None:
    """Gives this process the GPU; its standard error goes to a file."""
    os.dup2(os.open(printed, os.O_WRONLY | os.O_CREAT), 2)
    torch.__future__.set_swap_module_params_on_conversion(True)  # a parameter that moves stays the same object
    backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=Backend())


def run(commands: Sequence[Sequence[str]], printed: Path) -> None:
    """Runs commands of isotune, each of which has to use the GPU; exits with the code of the first that fails."""
    start(printed)
    for module in [module for name, module in sys.modules.items() if name.startswith("isotune.")]:
        if hasattr(module, "default_device"):
            module.default_device = lambda: NAME
    for words in commands:
        before = OnGpu.made
        with PretendGpu():
            if code := main(words):
                sys.exit(code)
        assert OnGpu.made > before, words


def compare_steps(names: Iterable[str], model: Path, sentences: list[str], printed: Path) -> None:
    """Makes a step of each method on the CPU and on the GPU, without dropout, and compares losses and gradients."""
    start(printed)
    for name in names:
        expected = gradient(*make(name, model, sentences, dtype=torch.float32))
        with PretendGpu():
            got = gradient(*make(name, model, sentences, NAME, torch.float32)).cpu()
        assert_same(got, expected, 1e-4)

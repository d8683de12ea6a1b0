"""A process in which torch seems to have an Apple GPU.

Tensors on that GPU compute on the CPU, under the rules of a GPU. An operation on tensors of two
devices is an error, and so is a number in float64. Within `without_waits`, so is everything for
which the CPU would have to wait until the GPU has finished its work.
"""

import tests.hub.environment  # noqa: F401

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from transformers import BertConfig, BertModel

from isotune.cli import main
from isotune.data.packed import Packed, concatenate, pack
from isotune.encoder.backbone import Backbone
from isotune.encoder.pooling import Pooling
from isotune.engine.step import Stepper, Update
from isotune.kernels import gpu
from isotune.losses import info_nce
from tests.engine.steps import assert_same, gradient, make

NAME = "pretend"  # what torch calls the device
aten = torch.ops.aten
INDEXED = {aten.index.Tensor, aten.index_put_.default}  # on a GPU, indices may be on the CPU
# What reads numbers of a GPU, or has a size that depends on them.
WAITS = {
    aten._local_scalar_dense.default,
    aten.equal.default,
    aten.nonzero.default,
    aten.masked_select.default,
}
WAITS |= {aten._unique2.default, aten.unique_consecutive.default, aten.is_nonzero.default}
VIEWS = {
    "view",
    "t",
    "transpose",
    "unsqueeze",
    "squeeze",
    "select",
    "slice",
    "expand",
    "_unsafe_view",
    "permute",
}
VIEWS |= {"split", "split_with_sizes", "unbind", "detach", "alias", "as_strided", "promote_types"}
waiting = True  # whether the CPU may wait
launched = 0  # operations on the GPU that compute or copy


@contextmanager
def without_waits() -> Iterator[None]:
    """Makes waiting an error for a `with` block."""
    global waiting
    waiting = False
    try:
        yield
    finally:
        waiting = True


def waits(operation: Any, args: Any, options: dict[str, Any]) -> bool:
    """Whether the CPU would wait for the result of an operation on the GPU."""
    of_index = [x for x in args[1] if isinstance(x, Tensor)] if operation in INDEXED else []
    return (
        operation in WAITS
        or any(x.dtype == torch.bool or (not isinstance(x, OnGpu) and x.ndim) for x in of_index)
        or (operation is aten.repeat_interleave.Tensor and options.get("output_size") is None)
        or (
            operation is aten.copy_.default
            and not isinstance(args[0], OnGpu)
            and isinstance(args[1], OnGpu)
        )
        or (options.get("device") is not None and torch.device(options["device"]).type == "cpu")
    )


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
            *(cls, on_cpu.shape, on_cpu.stride(), on_cpu.storage_offset()),
            dtype=on_cpu.dtype,
            device=f"{NAME}:0",
        )
        tensor.on_cpu = on_cpu
        OnGpu.made += 1
        return tensor

    @classmethod
    def __torch_dispatch__(cls, operation: Any, _: Any, args: Any = (), options: Any = None) -> Any:
        return computed(operation, args, options or {})

    def tolist(self) -> Any:
        assert waiting, "tolist: the CPU would wait for the GPU"
        return self.on_cpu.tolist()

    def __deepcopy__(self, copies: dict[int, Any]) -> Tensor:
        copy = OnGpu(self.on_cpu.detach().clone())
        copies[id(self)] = (
            nn.Parameter(copy, self.requires_grad) if isinstance(self, nn.Parameter) else copy
        )
        return copies[id(self)]

    def data_ptr(self) -> int:
        return self.on_cpu.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.on_cpu.untyped_storage()


class PretendGpu(TorchDispatchMode):
    """Operations that make a tensor, or take one to another device."""

    def __torch_dispatch__(
        self, operation: Any, _: Any, args: Any = (), options: Any = None
    ) -> Any:
        return computed(operation, args, options or {})


def computed(operation: Any, args: Any, options: dict[str, Any]) -> Any:
    """The result of an operation, on the device of the options, or else of its arguments."""
    tensors = [x for x in tree_leaves((args, options)) if isinstance(x, Tensor)]
    on_gpu = [x for x in tensors if isinstance(x, OnGpu)]
    global launched
    launched += bool(on_gpu) and operation.name().split("::")[1].split(".")[0] not in VIEWS
    if on_gpu and not waiting and waits(operation, args, options):
        raise RuntimeError(f"{operation}: the CPU would wait for the GPU")
    device = options.get("device")
    result_on_gpu = bool(on_gpu) if device is None else torch.device(device).type == NAME
    together = tree_leaves((args[0], args[2:])) if operation in INDEXED else tensors
    on_cpu = [x for x in together if isinstance(x, Tensor) and not isinstance(x, OnGpu) and x.ndim]
    if on_gpu and on_cpu and operation is not aten.copy_.default:
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
    torch.__future__.set_swap_module_params_on_conversion(
        True
    )  # a parameter that moves stays the same object
    backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=Backend())


def run(commands: Sequence[Sequence[str]], printed: Path) -> None:
    """Runs commands of isotune, each of which has to use the GPU.

    The process exits with the code of the first command that fails. No training step but the first
    of a stage may wait for the GPU.
    """
    start(printed)
    update = Stepper.update

    def update_without_waits(self: Stepper, step: int) -> Update:
        with without_waits() if step else nullcontext():
            return update(self, step)

    Stepper.update = update_without_waits  # type: ignore[method-assign]
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
    """Makes a step of each method on the CPU and on the GPU, without dropout, and compares them."""
    start(printed)
    for name in names:
        expected = gradient(*make(name, model, sentences, dtype=torch.float32))
        with PretendGpu():
            made = make(name, model, sentences, NAME, torch.float32)
            gradient(*made)  # a flow starts by what its first batch is
            with without_waits():
                got = gradient(*made)
            got = got.cpu()
        assert_same(got, expected, 1e-4)


def launches(compute: Callable[[], object]) -> int:
    """How many operations a computation launches on the GPU."""
    before = launched
    compute()
    return launched - before


def compare_launches(printed: Path) -> None:
    """Counts launches of isotune, and of transformers' padded model.

    The padded model has sentence-transformers' pooling and loss. A step encodes pairs: isotune all
    texts at once, sentence-transformers each side by itself.
    """
    start(printed)
    config = BertConfig(
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=64,
        vocab_size=99,
    )
    config._attn_implementation = "sdpa"
    sentences = [[2, *range(5, 5 + length), 3] for length in (3, 9, 4, 7, 7, 12)]
    with PretendGpu():
        theirs, ours = (BertModel(deepcopy(config), add_pooling_layer=False) for _ in range(2))
        theirs = theirs.to(NAME)
        backbone, pooling = Backbone(ours).to(NAME), Pooling(layers=(4,))
        packed = pack(sentences)
        mask = packed.mask.long().to(NAME)
        ids = packed.pad(packed.ids).to(NAME)

        def encode_padded() -> Tensor:
            states = theirs(
                input_ids=ids, attention_mask=mask, token_type_ids=torch.zeros_like(ids)
            ).last_hidden_state
            weights = mask.unsqueeze(-1).expand(states.size()).float()
            return (states * weights).sum(1) / weights.sum(1).clamp(min=1e-9)

        def encode(batches: Sequence[Packed]) -> Tensor:
            tokens = concatenate(batches).to(NAME)
            return tokens.restore(pooling(backbone(tokens, None, (4,)), tokens))

        def step_padded() -> None:
            a, b = (normalize(encode_padded(), dim=1) for _ in range(2))
            cross_entropy(20 * a @ b.T, torch.arange(len(a)).to(NAME)).backward()

        def step() -> None:
            a, b = encode([replace(packed, seeds=packed.order)] * 2).split(len(packed))
            info_nce(a, b, 0.05).backward()

        assert launches(step) <= 1.1 * launches(step_padded)
        with torch.no_grad():
            expected = launches(encode_padded)
            assert launches(lambda: encode([packed])) <= 1.2 * expected  # in float32
            gpu.can_flash = lambda *_: True  # as in bfloat16
            gpu.flash_attention = lambda q, k, v, *_: q + v  # one kernel
            assert launches(lambda: encode([packed])) <= 1.1 * expected

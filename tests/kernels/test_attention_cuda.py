"""The arguments of torch's variable-length attention, checked by a slow stand-in for it.

On a GPU, the real kernel is checked.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

from isotune.data.packed import Packed, Reach, pack
from isotune.kernels.attention import packed_attention
from isotune.kernels.gpu import can_flash, flash_attention


def stand_in(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bounds_q: Tensor,
    bounds_k: Tensor,
    max_q: int,
    max_k: int,
    **options: Any,
) -> Tensor:
    """Attends sequence by sequence and token by token, as torch documents `varlen_attn`."""
    assert bounds_q.dtype == bounds_k.dtype == torch.int32
    assert max_q == max_k == int(bounds_q.diff().max())
    left, right = options["window_size"]
    scale = options["scale"]
    output = torch.empty_like(q)
    for start, end in zip(bounds_q.tolist(), bounds_k.tolist()[1:], strict=False):
        for i in range(start, end):
            first = start if left < 0 else max(start, i - left)
            last = end if right < 0 else min(end, i + right + 1)
            weights = (torch.einsum("hf,khf->hk", q[i], k[first:last]) * scale).softmax(
                -1
            )  # [heads, keys]
            output[i] = torch.einsum("hk,khf->hf", weights, v[first:last])
    return output


@pytest.fixture
def batch() -> Packed:
    return pack([[1] * length for length in (9, 1, 5, 2, 5)])


@pytest.mark.parametrize("sliding_window", [None, 1, 3])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scaling", [None, 0.3])
def test_the_kernel_equals_attention_by_groups_of_equal_length(
    batch: Packed,
    sliding_window: int | None,
    causal: bool,
    scaling: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", stand_in)
    query, key, value = (torch.randn(22, 4, 8, dtype=torch.float64) for _ in range(3))
    inputs = [
        x.transpose(0, 1).unsqueeze(0) for x in (query, key, value)
    ]  # [1, heads, T, features]
    expected, _ = packed_attention(
        torch.nn.Identity(),
        *inputs,
        None,
        packed=batch,
        scaling=scaling,
        sliding_window=sliding_window,
        causal=causal,
    )
    reach = Reach(sliding_window, causal)
    flash = flash_attention(query, key, value, batch, scaling or 8**-0.5, reach)
    torch.testing.assert_close(flash.unsqueeze(0), expected)


def test_a_cpu_uses_groups_of_equal_length() -> None:
    assert not can_flash(torch.zeros(3, 4, 8, dtype=torch.bfloat16), 0.0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sliding_window", [None, 3])
def test_attention_on_a_gpu_equals_that_on_a_cpu(
    batch: Packed, sliding_window: int | None, causal: bool
) -> None:
    query, key, value = (
        torch.randn(22, 4, 32, device="cuda", dtype=torch.bfloat16) for _ in range(3)
    )
    assert can_flash(query, 0.0)
    assert not can_flash(query, 0.1)
    assert not can_flash(query.float(), 0.0)
    for x in (query, key, value):
        x.requires_grad_()
    reach = Reach(sliding_window, causal)
    attended = flash_attention(query, key, value, batch.to("cuda"), 32**-0.5, reach)
    gradients = torch.autograd.grad(attended.float().square().sum(), (query, key, value))
    on_cpu = [x.detach().cpu().float().requires_grad_() for x in (query, key, value)]
    inputs = [x.transpose(0, 1).unsqueeze(0) for x in on_cpu]
    expected, _ = packed_attention(
        torch.nn.Identity(),
        *inputs,
        None,
        packed=batch,
        sliding_window=sliding_window,
        causal=causal,
    )
    torch.testing.assert_close(attended.cpu().float().unsqueeze(0), expected, rtol=0.02, atol=0.02)
    for gradient, wanted in zip(
        gradients, torch.autograd.grad(expected.square().sum(), on_cpu), strict=True
    ):
        torch.testing.assert_close(gradient.cpu().float(), wanted, rtol=0.05, atol=0.05)

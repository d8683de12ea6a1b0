"""The attention of CPUs agrees with that of GPUs, in values, gradients and all types."""

import pytest
import torch

from isotune.data.packed import ALL, Reach, pack
from isotune.kernels.attention import packed_attention
from isotune.kernels.cpu.attention import PlainAttention, PlainOptions, can_mask, masked_attention
from isotune.kernels.cpu.dropout import DRAWS, Draws, with_value
from isotune.kernels.gpu import gpu_attention

# Shorter than a register, longer, and long; two are of one length.
LENGTHS = (2, 5, 5, 9, 16, 17, 70)
TOKENS = sum(LENGTHS)
SENTENCES = pack([[1] * length for length in LENGTHS])


REACHES = [ALL, Reach(3), Reach(causal=True), Reach(3, causal=True)]


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("reach", REACHES)
def test_plain_products_and_one_masked_product_equal_the_attention_of_gpus(
    reach: Reach, with_bias: bool
) -> None:
    inputs = [torch.randn(TOKENS, 4, 8, dtype=torch.float64).requires_grad_() for _ in range(3)]
    gradient = torch.randn(TOKENS, 4, 8, dtype=torch.float64)
    bias = torch.randn(4, 70, 70, dtype=torch.float64).requires_grad_() if with_bias else None
    learned = inputs if bias is None else [*inputs, bias]
    options = PlainOptions(SENTENCES, 0.3, dropout=0.0, training=True, reach=reach)
    results = []
    for output in (
        PlainAttention.apply(*inputs, bias, options),
        gpu_attention(*inputs, SENTENCES, 0.3, 0.0, reach, bias),
    ):
        results.append([output, *torch.autograd.grad(output, learned, gradient)])
    for plain, fused in zip(*results, strict=True):
        torch.testing.assert_close(plain, fused)
    torch.testing.assert_close(
        masked_attention(*inputs, SENTENCES, 0.3, reach, bias), results[1][0]
    )


@pytest.mark.parametrize("reach", REACHES)
def test_attention_equals_that_of_every_sentence_by_itself(reach: Reach) -> None:
    query = torch.randn(1, 4, TOKENS, 8, dtype=torch.float64)
    key, value = torch.randn(2, 1, 2, TOKENS, 8, dtype=torch.float64)  # two heads for four
    output, _ = packed_attention(
        torch.nn.Identity(),
        query,
        key,
        value,
        None,
        packed=SENTENCES,
        sliding_window=reach.window,
        causal=reach.causal,
    )
    start = 0
    for length in LENGTHS:
        for token in range(length):
            seen = [
                start + other
                for other in range(length)
                if (reach.window is None or abs(other - token) < reach.window)
                and not (reach.causal and other > token)
            ]
            for head in range(4):
                logits = key[0, head // 2, seen] @ query[0, head, start + token] / 8**0.5
                expected = logits.softmax(0) @ value[0, head // 2, seen]
                torch.testing.assert_close(output[0, start + token, head], expected)
        start += length


def test_a_product_is_masked_only_for_few_tokens_without_gradient() -> None:
    query = torch.randn(TOKENS, 4, 8)
    assert not can_mask(query, SENTENCES, 0.0)
    with torch.no_grad():
        assert can_mask(query, SENTENCES, 0.0)
        assert not can_mask(query, SENTENCES, 0.1)
        assert not can_mask(torch.empty(2**14, 4, 8), pack([[1] * 2**14]), 0.0)


@pytest.mark.parametrize(("dropout", "training"), [(0.0, True), (0.4, True), (0.4, False)])
def test_gradients_equal_autograds(dropout: float, training: bool) -> None:
    packed = pack([[1] * length for length in (2, 3, 3, 17)])
    shapes = [(25, 2, 2)] * 3 + [(2, 17, 17)]  # the last is the bias
    inputs = [torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in shapes]

    def attend(*rows: torch.Tensor) -> torch.Tensor:
        options = PlainOptions(packed, 0.3, dropout, training=training)
        # The same weights are dropped each time.
        with with_value(DRAWS, Draws(torch.arange(4), torch.arange(25))):
            return PlainAttention.apply(*rows, options)

    assert torch.autograd.gradcheck(attend, inputs)


@pytest.mark.parametrize("sliding_window", [None, 3])
def test_attention_in_bfloat16_is_close_to_float32(sliding_window: int | None) -> None:
    query, key, value = (torch.randn(1, 4, TOKENS, 8).bfloat16() for _ in range(3))
    results = []
    for dtype in (torch.float32, torch.bfloat16):
        inputs = [x.to(dtype).requires_grad_() for x in (query, key, value)]
        output, _ = packed_attention(
            torch.nn.Identity(),
            *inputs,
            None,
            packed=SENTENCES,
            scaling=0.3,
            sliding_window=sliding_window,
        )
        output.float().square().sum().backward()
        results.append([output.float(), *(x.grad.float() for x in inputs if x.grad is not None)])
    for exact, coarse in zip(*results, strict=True):
        torch.testing.assert_close(coarse, exact, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_keeps_the_expectation(dtype: torch.dtype) -> None:
    packed = pack([[1] * 6] * 50)
    shape = (1, 2, 300, 8)
    query, key, value = torch.zeros(shape), torch.zeros(shape), torch.ones(shape)
    inputs = [x.to(dtype) for x in (query, key, value)]
    with with_value(DRAWS, Draws(torch.arange(50), torch.arange(300))):
        output, _ = packed_attention(torch.nn.Identity(), *inputs, None, packed=packed, dropout=0.5)
    assert output.float().mean().item() == pytest.approx(1.0, abs=0.1)
    assert output.float().std() > 0.3

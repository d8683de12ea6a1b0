"""MPNet on packed sentences.

transformers' MPNet adds a bias for each distance between two tokens to its attention, which is its
own: there is no attention function to replace. The classes here give the same bias to packed
attention. Without a packed batch they compute as transformers' classes do.
"""

from contextvars import ContextVar
from typing import Any

from torch import Tensor
from transformers.models.mpnet import modeling_mpnet as original

from isotune.kernels.attention import packed_attention

PASSED: ContextVar[dict[str, Any]] = ContextVar("passed")
"""What `packed_attention` takes from the forward pass that a thread is in, because MPNet's layers
pass nothing on."""


class _Encoder(original.MPNetEncoder):
    def compute_position_bias(self, x: Tensor, *others: Any) -> Tensor:
        """[N, heads, L, L]; of packed sentences [heads, longest, longest].

        Shorter sentences take a corner of it.
        """
        passed = PASSED.get({})
        if passed:
            x = x[:, : passed["packed"].longest]
        bias: Tensor = super().compute_position_bias(x, *others)  # type: ignore[no-untyped-call]
        if passed:
            return bias[0]
        return bias


class _SelfAttention(original.MPNetSelfAttention):
    def forward(  # type: ignore[override]
        self, states: Tensor, mask: Tensor | None, bias: Tensor, **others: Any
    ) -> Any:
        """[1, T, d] -> ([1, T, d], weights), with the bias of `compute_position_bias`."""
        passed = PASSED.get({})
        if not passed:
            return super().forward(states, mask, bias, **others)  # type: ignore[no-untyped-call]
        q = self._by_heads(self.q(states))
        k = self._by_heads(self.k(states))
        v = self._by_heads(self.v(states))
        rate = 0.0
        if self.training:
            rate = self.dropout.p
        output, weights = packed_attention(self, q, k, v, None, bias=bias, dropout=rate, **passed)
        return self.o(output.flatten(-2)), weights

    def _by_heads(self, x: Tensor) -> Tensor:
        """[1, T, d] -> [1, heads, T, d / heads]."""
        return x.unflatten(-1, (-1, self.attention_head_size)).transpose(1, 2)


def take_packed(model: original.MPNetModel) -> None:
    """Makes a model one that takes packed batches, with the weights that it has."""
    model.encoder.__class__ = _Encoder
    for module in model.modules():
        if isinstance(module, original.MPNetSelfAttention):
            module.__class__ = _SelfAttention

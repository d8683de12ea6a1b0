"""From views to vectors: heads, cached vectors and adversarial views."""

from collections.abc import Sequence

import torch
from torch import Tensor

from isotune.data.packed import Packed
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense
from isotune.methods.method import VectorView, View
from isotune.views.adversarial import Adversarial
from isotune.views.augmentation import Augmentation, Shuffle
from tests.conftest import encode_views, seeded


def encode(encoder: Encoder, *views: View) -> list[Tensor]:
    return encode_views(encoder, views)


def test_heads_follow_unless_a_view_wants_none(encoder: Encoder, tokens: Packed) -> None:
    encoder.heads.append(Dense(32, 7))
    pooled = encoder.pool(tokens)
    with_heads, without, cached = encode(
        encoder, View(tokens), View(tokens, heads=False), VectorView(pooled)
    )
    torch.testing.assert_close(without, pooled)
    torch.testing.assert_close(with_heads, encoder.heads(pooled))
    assert torch.equal(cached, encoder.heads(pooled))


class Plus(Augmentation):
    """Adds a constant that a gradient can be asked of."""

    def __init__(self, addend: Tensor) -> None:
        self.addend = addend

    def embeddings(self, embeddings: Tensor, tokens: Packed) -> Tensor:
        return embeddings + self.addend


def test_an_adversarial_view_moves_each_token_along_the_gradient(
    encoder: Encoder, tokens: Packed
) -> None:
    def loss(vectors: Sequence[Tensor]) -> Tensor:
        return vectors[0].sin().sum()

    views = [View(tokens, Shuffle()), View(tokens, Adversarial(of=0, norm=0.5)), View(tokens)]
    shuffled, attacked, plain = encode_views(encoder, views, loss)
    torch.testing.assert_close(plain, encoder(tokens))

    # The same by hand: the gradient at the embeddings of the shuffled view. That of each token has
    # the length 0.5.
    zeros = torch.zeros(len(tokens.ids), 32, requires_grad=True)

    class Shuffled(Plus):
        def positions(self, tokens: Packed) -> Tensor:
            return Shuffle().positions(tokens)

    again = encoder(seeded(tokens), Shuffled(zeros))
    torch.testing.assert_close(shuffled, again)
    (gradient,) = torch.autograd.grad(loss([again]), zeros)
    noise = 0.5 * gradient / gradient.norm(dim=-1, keepdim=True)
    torch.testing.assert_close(attacked, encoder(tokens, Plus(noise)), rtol=1e-4, atol=1e-5)
    # Parameters got no gradient of the loss that was climbed.
    assert all(parameter.grad is None for parameter in encoder.parameters())

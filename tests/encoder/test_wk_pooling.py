"""WK pooling: against its transcription, saved and loaded."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from isotune.data.packed import pack
from isotune.encoder.encoder import Encoder
from isotune.encoder.pooling import Pooling, change_pooling
from isotune.encoder.wk_pooling import wk_pooling
from tests.conftest import reopened
from tests.reference import wk as reference

LENGTHS = [4, 1, 7, 2]


def walk(layers: int, tokens: int, d: int) -> list[Tensor]:
    """States [tokens, d] of several layers, each a small step from the layer below."""
    return list(
        (torch.ones(d) + 0.5 * torch.randn(layers, tokens, d, dtype=torch.float64)).cumsum(0)
    )


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("layers", [3, 4, 5, 9])
def test_wk_pooling_equals_its_transcription(layers: int, released: bool) -> None:
    tokens = pack([[1] * length for length in LENGTHS])
    states = walk(layers, sum(LENGTHS), 16)
    parts = list(zip(*(layer.split(tokens.lengths.tolist()) for layer in states), strict=True))
    expected = torch.stack([reference.sentence(part, released) for part in parts])
    torch.testing.assert_close(
        wk_pooling(states, tokens, released=released), expected, rtol=1e-10, atol=1e-12
    )
    single = wk_pooling([layer.float() for layer in states], tokens, released=released)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), expected, rtol=1e-5, atol=1e-5)


def test_the_default_layers_start_at_the_fourth() -> None:
    for blocks, layers in {
        24: tuple(range(4, 25)),
        6: (4, 5, 6),
        4: (2, 3, 4),
        2: (0, 1, 2),
    }.items():
        assert change_pooling(Pooling(), "wk", None, blocks).layers == layers


def test_a_saved_encoder_gives_the_same_vectors(
    tiny_model: Path, sentences: list[str], tmp_path: Path
) -> None:
    encoder = Encoder.load(tiny_model, pooling="wk")
    assert encoder.pooling == Pooling("wk", (1, 2, 3))
    vectors = encoder.encode(sentences)
    alone = np.stack([encoder.encode(sentence) for sentence in sentences[:9]])
    np.testing.assert_allclose(alone, vectors[:9], atol=1e-4)
    # A random model's layers hardly vary, and rounding has its part in what they do.
    loaded = reopened(encoder, tmp_path / "saved", sentences, atol=1e-4, trust_remote_code=True)
    assert loaded.pooling == encoder.pooling
    SentenceTransformer(str(tmp_path / "saved"), trust_remote_code=True).save(str(tmp_path / "st"))
    assert np.array_equal(Encoder.load(tmp_path / "st").encode(sentences), vectors)

"""Pooling by the model's own pooler, against transformers' pooler_output."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from isotune.encoder.backbone import Backbone
from isotune.encoder.encoder import Encoder
from isotune.encoder.format.pretrained import load_model, take_pooler
from isotune.encoder.pooling import Pooling
from isotune.errors import InputError
from tests.conftest import reopened
from tests.encoder.test_backbone import ARCHITECTURES, batch, make


@pytest.mark.parametrize("name", ARCHITECTURES)
@torch.no_grad()
def test_the_head_equals_the_models_pooler(name: str, tmp_path: Path) -> None:
    tokens, ids, mask = batch()
    model = make(name)
    model.save_pretrained(tmp_path)
    backbone = Backbone(load_model(tmp_path, torch.float32)).eval()
    if getattr(model, "pooler", None) is None:
        with pytest.raises(InputError, match="has no weights of a pooler"):
            take_pooler(backbone.model)
        return
    pooler = take_pooler(backbone.model)
    vectors = pooler(
        tokens.restore(Pooling("cls").numbered(backbone.layers)(backbone(tokens), tokens))
    )
    expected = model(input_ids=ids, attention_mask=mask.long()).pooler_output
    torch.testing.assert_close(vectors, expected, atol=1e-6, rtol=1e-5)


def test_a_loaded_and_a_saved_encoder_equal_transformers(
    with_pooler: Path, tmp_path: Path, sentences: list[str]
) -> None:
    inputs = AutoTokenizer.from_pretrained(with_pooler)(
        sentences, return_tensors="pt", padding=True
    )
    with torch.no_grad():
        expected = AutoModel.from_pretrained(with_pooler)(**inputs).pooler_output.numpy()
    encoder = Encoder.load(with_pooler, pooling="pooler")
    np.testing.assert_allclose(encoder.encode(sentences), expected, atol=1e-6)
    reopened(encoder, tmp_path / "saved", sentences, atol=1e-6)


def test_the_pooler_comes_before_the_folders_heads_and_reads_the_last_layer(
    with_pooler: Path, tmp_path: Path, sentences: list[str]
) -> None:
    theirs = Encoder.load(with_pooler, pooling="mean", layers=(0, -1))
    theirs.save(tmp_path / "theirs")
    theirs = Encoder.load(tmp_path / "theirs", pooling="pooler")
    expected = Encoder.load(with_pooler, pooling="pooler").encode(sentences)
    assert np.array_equal(theirs.encode(sentences), expected)
    rounded = Encoder.load(with_pooler, pooling="pooler", precision="bfloat16").encode(sentences)
    np.testing.assert_allclose(rounded, expected, atol=0.05)


def test_a_model_without_a_pooler_has_none_made_up(
    tiny_model: Path, with_pooler: Path, tmp_path: Path
) -> None:
    Encoder.load(with_pooler, pooling="pooler").save(tmp_path / "saved")
    for folder in (tiny_model, tmp_path / "saved"):
        with pytest.raises(
            InputError,
            match=f"pooling pooler: model {folder} has no weights of a pooler; choose cls",
        ):
            Encoder.load(folder, pooling="pooler")

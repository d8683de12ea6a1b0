"""Every type of model as an ONNX folder, and real encoders."""

from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer

from isotune.encoder.encoder import Encoder
from isotune.use.export.onnx import export_onnx
from tests.encoder.test_backbone import ARCHITECTURES, make
from tests.use.export.test_onnx import encode_without_torch

pytestmark = pytest.mark.slow
SENTENCES = ["How do I reset it?", "It won't restart.", "a " * 600, "Café, 犬!", ""]


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # inside transformers' DeBERTa
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_type_of_model(name: str, tiny_model: Path, tmp_path: Path, sentences: list[str]) -> None:
    make(name).save_pretrained(tmp_path / "model")
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "tokenizer_config.json").write_text(
        (tiny_model / "tokenizer_config.json").read_text("utf-8"), "utf-8"
    )
    assert export_onnx(tmp_path / "model", tmp_path / "onnx").difference < 1e-5


@pytest.mark.parametrize("model", ["mini", "bert-tiny", "all-minilm"])
def test_real_models(model: str, real_models: Path, tmp_path: Path) -> None:
    if not (real_models / model).exists():
        pytest.skip(f"there is no {model} in $ISOTUNE_MODELS")
    export = export_onnx(real_models / model, tmp_path / "onnx")
    assert export.difference < 2e-5  # each of the two is within 1e-5 of float64
    vectors = encode_without_torch(export.folder, SENTENCES)
    np.testing.assert_allclose(vectors, Encoder.load(real_models / model).encode(SENTENCES), atol=1e-5)

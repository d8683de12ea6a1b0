"""What `isotune doctor` says of an encoder's folder."""

import json
from pathlib import Path

import pytest
import torch

from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense, Normalize
from tests.cli.conftest import Call, Refused


@pytest.fixture
def folder(tiny_model: Path, tmp_path: Path) -> Path:
    """An encoder with another pooling, two heads and prompts."""
    encoder = Encoder.load(tiny_model, pooling="max", layers=[1, -1])
    encoder.heads.extend([Dense(32, 8), Normalize()])
    encoder.settings = {"prompts": {"query": "find: ", "passage": ""}}
    encoder.save(tmp_path / "encoder")
    return tmp_path / "encoder"


def test_the_folder_is_told_without_its_weights(
    isotune: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotune.encoder.encoder.load_model", None)
    facts = json.loads(isotune("doctor", str(folder), "--no-weights", "--json").out)
    assert facts == {
        "model type": "bert",
        "runs": "packed; a token sees all others",
        "blocks": "3 of 32 features",
        "pooling": "max of layers 1 3 (-1 is the last)",
        "layers after it": "Dense, Normalize",
        "vectors": "8 features",
        "maximum length": "32 tokens",
        "tokens of a text": "[CLS] text [SEP]",
        "tokenizer": "TokenizersBackend, 28 tokens, pads right, cuts right",
        "prompt of all texts": "''",
        "prompt of a query": "'find: '",
        "prompt of a document": "''",
    }


def test_an_outline_says_what_the_encoder_says(folder: Path) -> None:
    outline = Encoder.outline(folder)
    encoder = Encoder.load(folder)
    assert outline.backbone.model.device == torch.device("meta")
    assert outline.tokenize(["a big dog"]) == encoder.tokenize(["a big dog"])
    for name in ("dimension", "max_length", "pooling", "prompt", "roles", "settings"):
        assert getattr(outline, name) == getattr(encoder, name)


def test_a_folder_that_does_not_load_is_told_without_weights(
    refused: Refused, tiny_model: Path, tmp_path: Path
) -> None:
    config = json.loads((tiny_model / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "xlnet"}))
    error = refused("doctor", str(tmp_path), "--no-weights")
    assert "unknown model type 'xlnet'" in error

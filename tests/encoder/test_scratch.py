"""New models: the vocabulary made from text, and the size of the model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from transformers import AutoTokenizer, BertForMaskedLM

from isotune.encoder.encoder import Encoder
from isotune.encoder.options import Scratch
from isotune.encoder.scratch import SPECIAL, make_model, make_tokenizer
from isotune.errors import InputError

TEXT = ["The lowest tower.", "the widest tower", "THE NEWEST café, the lowest of towers"] * 3
SMALL = Scratch(layers=2, hidden=16, heads=2, intermediate=24, positions=12, vocabulary=53)


def test_the_vocabulary_is_the_special_tokens_and_uncased_word_pieces() -> None:
    tokenizer = make_tokenizer(TEXT, 53, 12)
    pieces = tokenizer.convert_ids_to_tokens(range(53))
    assert len(tokenizer) == 53
    assert tuple(pieces[:5]) == SPECIAL
    assert pieces[5:] == sorted(pieces[5:])
    assert tokenizer.tokenize("The TOWER") == ["the", "tower"]
    assert tokenizer.tokenize("Cafe") == tokenizer.tokenize("café")  # accents are stripped
    assert "".join(piece.removeprefix("##") for piece in tokenizer.tokenize("lowestwidest")) == "lowestwidest"
    assert tokenizer.tokenize("zebra") == ["[UNK]"]
    assert tokenizer("the tower")["input_ids"] == tokenizer.convert_tokens_to_ids(["[CLS]", "the", "tower", "[SEP]"])


@pytest.mark.parametrize("size", [10, 5000])
def test_a_vocabulary_size_that_the_text_cannot_fill_is_refused(size: int) -> None:
    with pytest.raises(InputError, match=rf"vocabulary {size}: the text makes a vocabulary of \d+ pieces"):
        make_tokenizer(TEXT, size, 12)


def test_a_new_model_has_the_size_asked_for(tmp_path: Path) -> None:
    torch.manual_seed(0)
    make_model(tmp_path / "model", SMALL, TEXT)
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    sizes = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings")
    assert [config[name] for name in (*sizes, "vocab_size")] == [2, 16, 2, 24, 12, 53]
    assert config["pad_token_id"] == AutoTokenizer.from_pretrained(tmp_path / "model").pad_token_id == 0

    encoder = Encoder.load(tmp_path / "model")
    assert encoder.max_length == 12
    assert encoder.encode(["the lowest tower"] * 20).shape == (20, 16)
    _, loading_info = BertForMaskedLM.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert not any(loading_info.values())


def test_the_seed_determines_the_weights(tmp_path: Path) -> None:
    weights = []
    for run, seed in enumerate((0, 0, 1)):
        torch.manual_seed(seed)
        make_model(tmp_path / str(run), SMALL, TEXT)
        weights.append((tmp_path / str(run) / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
    assert weights[0] != weights[2]


def test_hidden_has_to_be_a_multiple_of_heads() -> None:
    with pytest.raises(ValidationError, match="hidden 256 is not a multiple of heads 5"):
        Scratch(heads=5)

"""The masked-LM loss of a model on held-out sentences."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Generator
from transformers import BertForMaskedLM

from isotune.encoder.encoder import Encoder
from isotune.encoder.heads.language import LanguageHead


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    return importlib.import_module("pretrain_mini")


def test_the_loss_is_the_mean_of_all_masked_tokens(
    tool: ModuleType, tiny_model: Path, tmp_path: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    encoder = Encoder.load(tiny_model)
    encoder.language_head = LanguageHead(encoder.backbone.model)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    encoder.save(tmp_path / "encoder")
    model = BertForMaskedLM.from_pretrained(tmp_path / "encoder").eval()

    monkeypatch.setattr(tool, "BATCH_SENTENCES", 1)  # so that masks can be drawn again sentence by sentence
    loss = tool.masked_lm_loss(encoder.train(), sentences, rate=0.3, seed=5)
    generator, losses = Generator().manual_seed(5), []
    masking = tool.Masking(encoder.tokenizer, 0.3)
    for ids in encoder.tokenize(sentences):
        masked = masking(tool.pack([ids]), generator)
        scores = model(input_ids=masked.tokens.ids[None]).logits[0].log_softmax(-1)
        losses += [-scores[place, target].item() for place, target in zip(masked.places, masked.targets, strict=True)]
    assert loss == pytest.approx(sum(losses) / len(losses), rel=1e-5)


def test_a_model_that_knows_nothing_has_the_log_of_its_vocabulary(
    tool: ModuleType, tiny_model: Path, sentences: list[str]
) -> None:
    encoder = Encoder.load(tiny_model)
    with torch.no_grad():
        encoder.backbone.model.get_input_embeddings().weight.zero_()
    assert tool.masked_lm_loss(encoder, sentences) == pytest.approx(math.log(len(encoder.tokenizer)), rel=1e-5)


def test_the_bundled_model_knows_english(tool: ModuleType) -> None:
    text = [
        "The capital of France is Paris, a city on the river Seine.",
        "He was born in 1954 and played football for the national team.",
        "The film was released in the United States and received positive reviews.",
        "It is one of the largest cities in the world, with a population of over ten million people.",
    ]
    words = [" ".join(reversed(sentence.split())) for sentence in text]
    encoder = Encoder.load("mini")
    known, scrambled = (tool.masked_lm_loss(encoder, sentences * 5) for sentences in (text, words))
    assert known < scrambled - 0.5
    assert known < 4

"""The masked-LM head against transformers' models, for every type.

And how its weights are loaded and saved.
"""

import copy
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM, BertForMaskedLM

from isotune.encoder.backbone import Backbone
from isotune.encoder.encoder import Encoder
from isotune.encoder.format.pretrained import load_model
from isotune.encoder.kinds import KINDS
from isotune.encoder.language import LanguageHead
from isotune.errors import InputError
from tests.conftest import reopened
from tests.encoder.test_backbone import ARCHITECTURES, batch, in_order, make


def has_head(name: str) -> bool:
    """Whether models of this architecture have a masked-LM head."""
    model_type = ARCHITECTURES[name][0].config_class.model_type
    return bool(KINDS[model_type].language_head)


def test_a_kind_without_a_head_is_refused() -> None:
    with pytest.raises(InputError, match="masked language modelling: models of type qwen3 have no"):
        LanguageHead(make("qwen3"))


@pytest.mark.filterwarnings(
    "ignore:`torch.jit.script`:DeprecationWarning"
)  # inside transformers' DeBERTa
@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if has_head(name)])
def test_scores_and_gradients_equal_the_models(name: str, tmp_path: Path) -> None:
    cls, options = ARCHITECTURES[name]
    whole = AutoModelForMaskedLM.from_config(cls.config_class(**options)).eval()
    with torch.no_grad():
        for parameter in whole.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    whole.save_pretrained(tmp_path)
    tokens, ids, mask = batch()
    expected = whole(input_ids=ids, attention_mask=mask.long()).logits[mask]

    backbone = Backbone(load_model(tmp_path, torch.float32)).eval()
    head = LanguageHead(backbone.model)
    (states,) = backbone(tokens).values()
    scores = torch.cat(in_order(tokens, head(states)))

    assert head.fresh == []
    torch.testing.assert_close(scores, expected, atol=1e-4, rtol=1e-4)
    weight = torch.randn_like(expected)
    (expected * weight).sum().backward()
    (scores * weight).sum().backward()
    wanted = {key: p.grad for key, p in whole.named_parameters() if p.grad is not None}
    actual = {
        key: p.grad for key, p in head.language_model.named_parameters() if p.grad is not None
    }
    assert actual.keys() == wanted.keys()
    largest = max(float(gradient.abs().max()) for gradient in wanted.values())
    for key, gradient in wanted.items():
        torch.testing.assert_close(
            actual[key],
            gradient,
            atol=1e-5 * largest,
            rtol=1e-3,
            msg=lambda m, at=key: f"{at}: {m}",
        )


def test_a_head_that_the_folder_lacks_starts_at_random_and_is_reported(tiny_model: Path) -> None:
    model = load_model(tiny_model, torch.float32)
    first = LanguageHead(model)
    second = LanguageHead(model)
    assert "cls.predictions.transform.dense.weight" in first.fresh
    dense = [head.language_model.cls.predictions.transform.dense.weight for head in (first, second)]
    assert not torch.equal(*dense)
    assert dense[0].detach().std().item() == pytest.approx(model.config.initializer_range, rel=0.1)


def test_an_encoder_keeps_its_head_in_its_folder(
    tiny_model: Path, tmp_path: Path, sentences: list[str]
) -> None:
    encoder = Encoder.load(tiny_model, layers=(0, -1))
    encoder.language_head = LanguageHead(encoder.backbone.model)
    head = LanguageHead(reopened(encoder, tmp_path / "encoder", sentences).backbone.model)
    assert head.fresh == []
    model, loading_info = BertForMaskedLM.from_pretrained(
        tmp_path / "encoder", output_loading_info=True
    )
    assert not any(loading_info.values())
    states = torch.randn(5, 32)
    expected = encoder.language_head(states)
    assert torch.equal(head(states), expected)
    assert torch.equal(model.cls(states), expected)


def test_a_copied_encoder_has_a_copied_head(encoder: Encoder) -> None:
    encoder.language_head = LanguageHead(encoder.backbone.model)
    other = copy.deepcopy(encoder)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    states = torch.randn(5, 32)
    assert not other.language_head(states).any()
    assert encoder.language_head(states).any()

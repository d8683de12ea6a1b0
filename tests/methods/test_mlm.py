"""Masked language modelling, alone and beside other methods: its loss is transformers'."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Generator, Tensor
from transformers import BertForMaskedLM

from isotune.data.packed import Packed, pack
from isotune.encoder.encoder import Encoder
from isotune.encoder.language import LanguageHead
from isotune.engine.objectives import Objectives, build_objectives
from isotune.errors import InputError
from isotune.methods.consert import ConSERT
from isotune.methods.method import Batch, Method
from isotune.methods.mlm import MLM
from isotune.methods.options import ConSERTOptions, MethodOptions, MLMOptions, SimCSEOptions
from isotune.methods.simcse import SimCSE
from isotune.recipes import Stage
from tests.conftest import encode_views


@pytest.fixture
def encoder(tiny_model: Path) -> Encoder:
    """With weights large enough for all of them to matter."""
    encoder = Encoder.load(tiny_model)
    encoder.language_head = LanguageHead(encoder.backbone.model)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return encoder.eval()


def batch(tokens: Packed, seed: int = 3) -> Batch:
    return Batch((tokens,), generator=Generator().manual_seed(seed))


def loss_of(objectives: Method | Objectives, encoder: Encoder, tokens: Packed) -> dict[str, Tensor]:
    """The loss terms of a step, as the trainer computes them."""
    objectives = objectives if isinstance(objectives, Objectives) else Objectives(objectives)
    views, terms_of, _ = objectives.views_and_losses(batch(tokens), encoder.device)
    return terms_of(encode_views(encoder, views))


def test_value_and_gradients_equal_transformers_on_padded_input(
    encoder: Encoder, tokens: Packed, tmp_path: Path
) -> None:
    method = MLM(MLMOptions(), encoder)
    loss = loss_of(method, encoder, tokens)["mlm"]
    loss.backward()

    encoder.save(tmp_path / "encoder")
    model = BertForMaskedLM.from_pretrained(tmp_path / "encoder").eval()
    (masked,) = method.draw(batch(tokens)).masked
    targets = torch.full_like(tokens.ids, -100).index_copy(0, masked.places, masked.targets)
    mask = torch.arange(int(tokens.lengths[-1])) < tokens.lengths[:, None]
    ids, labels = torch.zeros(mask.shape, dtype=torch.long), torch.full(mask.shape, -100)
    ids[mask], labels[mask] = masked.tokens.ids, targets
    expected = model(input_ids=ids, attention_mask=mask.long(), labels=labels).loss
    expected.backward()

    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    ours = {key: p.grad for key, p in encoder.language_head.language_model.named_parameters()}
    theirs = {key: p.grad for key, p in model.named_parameters()}
    assert ours.keys() == theirs.keys()
    for key, gradient in theirs.items():
        torch.testing.assert_close(ours[key], gradient, rtol=1e-3, atol=1e-6)


def test_every_text_of_a_row_is_masked(
    encoder: Encoder, tokens: Packed, sentences: list[str]
) -> None:
    texts = (tokens, pack(encoder.tokenize(sentences[9:18])))
    method = MLM(MLMOptions(masking_rate=0.4), encoder)
    drawn = method.draw(Batch(texts, generator=Generator().manual_seed(3)))
    encoded = encode_views(encoder, method.views(drawn))
    counts = [len(states) for states in encoded]
    assert counts == [len(masked.targets) for masked in drawn.masked]
    assert min(counts) > 0
    alone = [
        method.loss([states], replace(drawn, masked=(masked,)))["mlm"].item()
        for states, masked in zip(encoded, drawn.masked, strict=True)
    ]
    # The mean over the masked tokens of both texts, and not of the two means.
    assert method.loss(encoded, drawn)["mlm"].item() == pytest.approx(
        np.average(alone, weights=counts), rel=1e-6
    )


def test_a_batch_in_which_chance_masks_nothing_costs_nothing(
    encoder: Encoder, tokens: Packed
) -> None:
    loss = loss_of(MLM(MLMOptions(masking_rate=0.0), encoder), encoder, tokens)["mlm"]
    loss.backward()
    assert loss.item() == 0
    assert not any(p.grad.any() for p in encoder.parameters() if p.grad is not None)


@pytest.mark.parametrize(
    ("kind", "options"),
    [(SimCSE, SimCSEOptions()), (ConSERT, ConSERTOptions())],
    ids=["simcse", "consert"],
)
def test_beside_a_method_it_adds_a_view_and_a_term(
    kind: type[Method], options: MethodOptions, encoder: Encoder, tokens: Packed
) -> None:
    torch.manual_seed(5)
    alone = kind(options, encoder)
    both = Objectives(alone, [MLM(MLMOptions(masking_rate=0.2), encoder, weight=0.5)])
    terms, together = loss_of(alone, encoder, tokens), loss_of(both, encoder, tokens)
    mlm = loss_of(MLM(MLMOptions(masking_rate=0.2), encoder), encoder, tokens)["mlm"]
    assert list(together) == [*terms, "mlm"]
    for name, term in terms.items():
        assert together[name].item() == pytest.approx(term.item(), rel=1e-5)
    # Neither method draws random numbers in views(), so the masks are the same.
    assert together["mlm"].item() == pytest.approx(0.5 * mlm.item(), rel=1e-5)
    assert (
        len(both.views_and_losses(batch(tokens), encoder.device)[0])
        == len(alone.views(batch(tokens))) + 1
    )


def test_beside_a_method_it_trains_its_head_and_what_the_method_trains(encoder: Encoder) -> None:
    stage = Stage.model_validate({"method": "self-guided", "mlm_weight": 1.0, "projection": False})
    objectives = build_objectives(stage, encoder)
    head = encoder.language_head
    objectives.attach(encoder)
    assert encoder.language_head is head
    trained = {id(parameter) for parameter in objectives.trained(encoder)}
    assert trained.issuperset(id(parameter) for parameter in head.parameters())
    embeddings = encoder.backbone.model.get_submodule("embeddings").parameters()
    assert trained.isdisjoint(
        id(parameter) for parameter in embeddings
    )  # self-guidance freezes them


def test_a_later_stage_without_it_drops_the_head(encoder: Encoder) -> None:
    stage = Stage.model_validate({"method": "simcse"})
    build_objectives(stage, encoder).attach(encoder)
    assert encoder.language_head is None


@pytest.mark.parametrize("method", ["mlm", "clsr", "multitask"])
def test_a_method_that_it_does_not_fit_is_refused(method: str, encoder: Encoder) -> None:
    with pytest.raises(
        InputError,
        match=f"mlm_weight 1: method {method} can't have masked language modelling beside",
    ):
        build_objectives(Stage.model_validate({"method": method, "mlm_weight": 1.0}), encoder)

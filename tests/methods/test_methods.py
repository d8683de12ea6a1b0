"""The methods: which views they ask for, and that their loss is the paper's on what comes back."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from isotune.bundled import BUNDLED_MODEL
from isotune.data.packed import pack
from isotune.data.rows import Pair, Sentence, Triplet, text_fields
from isotune.data.tokens import TokenDataset
from isotune.encoder.encoder import Encoder
from isotune.encoder.pooling import Pooling
from isotune.engine.objectives import Objectives
from isotune.errors import InputError
from isotune.methods import METHODS, OPTIONS
from isotune.methods.consert import ConSERT
from isotune.methods.method import Batch, ClosedForm, Feed, Method
from isotune.methods.options import (
    ConSERTOptions,
    LinearMapOptions,
    MethodOptions,
    SimCSEOptions,
)
from isotune.methods.simcse import SimCSE
from isotune.views.augmentation import Augmentation, FeatureCutoff, Shuffle, TokenCutoff
from tests.conftest import attached, encode_views, trained
from tests.reference import losses as reference


def options_of(name: str) -> MethodOptions:
    """The least that a method has to be told."""
    if name == "linear-map":
        return LinearMapOptions(teachers=(str(BUNDLED_MODEL),))
    return OPTIONS[name]()


@pytest.fixture
def encoder(tiny_model: Path) -> Encoder:
    return Encoder.load(tiny_model, layers=(0, -1))


@pytest.fixture
def batch(encoder: Encoder, sentences: list[str]) -> Batch:
    return Batch((pack(encoder.tokenize(sentences[:9])),))


def make_batch(method: Method, encoder: Encoder, sentences: list[str]) -> Batch:
    """Nine rows of each feed, as the trainer gives them to the method."""
    batches = {
        name: _batch(method, feed, encoder, sentences) for name, feed in method.feeds().items()
    }
    return Batch.of_feeds(batches, torch.Generator())


def _batch(method: Method, feed: Feed, encoder: Encoder, sentences: list[str]) -> Batch:
    rows = feed.rows
    generator = torch.Generator().manual_seed(0)
    columns = [sentences[9 * k : 9 * k + 9] for k in range(len(text_fields(rows)))]
    targets = None
    if "label" in rows._fields:
        targets = torch.arange(9) % (len(feed.classes) or 3)
    elif "score" in rows._fields:
        targets = torch.linspace(0, 5, 9)
    elif method.teachers:
        targets = torch.randn(9, 5, generator=generator)
    texts = Pair if len(columns) == 2 else Triplet if len(columns) == 3 else Sentence
    tokenize = partial(method.tokenize, encoder, max_length=32)
    store = TokenDataset.build(
        [texts(*row) for row in zip(*columns, strict=True)], texts, tokenize, 32
    )
    tokens = store.pack(np.arange(9))
    if method.cached:
        with torch.no_grad():
            vectors = tuple(encoder.pool(one.to(encoder.device)) for one in tokens)
            return Batch(targets=targets, generator=generator, vectors=vectors)
    return Batch(tokens, targets, tuple(columns) if method.needs_text else (), generator=generator)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_of_the_table_trains_what_it_says(
    name: str, tiny_model: Path, sentences: list[str]
) -> None:
    encoder = Encoder.load(tiny_model)
    method = attached(METHODS[name](options_of(name), encoder).train(), encoder)
    encoder.train().requires_grad_(False)
    of_encoder = trained(method, encoder)
    for parameter in of_encoder:
        parameter.requires_grad_(True)

    batch = make_batch(method, encoder, sentences)
    assert OPTIONS[name].takes_steps is not isinstance(method, ClosedForm)
    if isinstance(method, ClosedForm):
        assert list(method.trained(encoder)) == list(method.parameters()) == []
        return
    objectives = Objectives(method)
    views, terms_of, adversary = objectives.views_and_losses(batch, encoder.device)
    terms = {**terms_of(encode_views(encoder, views, adversary)), **objectives.penalties(encoder)}
    loss = torch.stack(list(terms.values())).sum()
    loss.backward()
    assert torch.isfinite(loss)
    layers = [parameter for parameter in method.parameters() if parameter.requires_grad]
    assert [p.shape for p in [*of_encoder, *layers] if p.grad is None] == []


@pytest.mark.parametrize("name", METHODS)
def test_building_a_method_changes_nothing_in_the_encoder(name: str, tiny_model: Path) -> None:
    encoder = Encoder.load(tiny_model)
    before = {key: value.clone() for key, value in encoder.state_dict().items()}
    expected = (
        list(encoder.heads),
        encoder.prompt,
        encoder.pooling,
        encoder.language_head,
        encoder.dimension,
    )
    gradients = [parameter.requires_grad for parameter in encoder.parameters()]
    method = METHODS[name](options_of(name), encoder)
    after = encoder.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(value, before[key]) for key, value in after.items())
    assert (
        list(encoder.heads),
        encoder.prompt,
        encoder.pooling,
        encoder.language_head,
        encoder.dimension,
    ) == expected
    assert [parameter.requires_grad for parameter in encoder.parameters()] == gradients

    # What the encoder gets is what the method declares.
    method.adds.attach(encoder)
    assert tuple(encoder.heads) == method.adds.heads
    assert encoder.prompt == (method.adds.prompt or "")
    assert encoder.pooling == (method.adds.pooling or expected[2])
    assert encoder.language_head is method.adds.language_head
    registered = {id(parameter) for parameter in method.parameters()}
    assert registered.isdisjoint(
        map(id, method.adds.parameters())
    )  # the checkpoint has each weight once


def test_simcse_compares_two_passes_that_differ_by_dropout(encoder: Encoder, batch: Batch) -> None:
    method = SimCSE(SimCSEOptions(temperature=0.07, projection=False), encoder)
    first, second = encode_views(encoder.train(), method.views(batch))
    assert not torch.equal(first, second)
    expected = reference.info_nce(first.double(), second.double(), 0.07)
    torch.testing.assert_close(
        method.loss([first, second], batch)["info_nce"].double(), expected, rtol=1e-5, atol=0
    )

    first, second = encode_views(encoder.eval(), method.views(batch))
    assert torch.equal(first, second)


def test_simcse_projects_both_views_alike_while_training(encoder: Encoder, batch: Batch) -> None:
    method = SimCSE(SimCSEOptions(projection=True), encoder)
    first, second = torch.randn(2, 9, 32)
    linear = method.projection.linear
    projected = [torch.tanh(x @ linear.weight.T + linear.bias).double() for x in (first, second)]
    expected = reference.info_nce(*projected, 0.05)
    torch.testing.assert_close(
        method.loss([first, second], batch)["info_nce"].double(), expected, rtol=1e-4, atol=0
    )


def test_simcse_keeps_the_layer_that_it_trains_through(encoder: Encoder, batch: Batch) -> None:
    torch.manual_seed(0)
    dropped = SimCSE(SimCSEOptions(), encoder)
    expected = dropped.loss(encode_views(encoder.eval(), dropped.views(batch)), batch)["info_nce"]
    torch.manual_seed(0)
    kept = SimCSE(SimCSEOptions(keep_projection=True), encoder)
    kept.adds.attach(encoder)
    loss = kept.loss(encode_views(encoder.eval(), kept.views(batch)), batch)["info_nce"]
    torch.testing.assert_close(loss, expected)
    assert len(encoder.heads) == 1


def test_consert_makes_two_augmented_views_of_the_last_layer(
    encoder: Encoder, batch: Batch
) -> None:
    method = ConSERT(ConSERTOptions(), encoder)
    first, second = method.views(batch)
    assert (first.augmentation, second.augmentation) == (FeatureCutoff(0.2), Shuffle())
    assert (
        first.pooling == second.pooling == Pooling("mean", (-1,))
    )  # whatever layers the encoder averages

    plain = ConSERT(ConSERTOptions(augmentations=("none", "none"), temperature=0.2), encoder)
    assert [view.augmentation for view in plain.views(batch)] == [Augmentation(), Augmentation()]
    a, b = encode_views(encoder, plain.views(batch))
    assert torch.equal(a, b)
    expected = reference.nt_xent(a.double(), b.double(), 0.2)
    torch.testing.assert_close(
        plain.loss([a, b], batch)["nt_xent"].double(), expected, rtol=1e-5, atol=0
    )


def test_soft_targets_are_the_shares_of_the_encoder_before_the_stage(
    encoder: Encoder, batch: Batch
) -> None:
    views = torch.randn(2, 9, 32)
    targets = torch.randn(9, 5)
    methods = {
        0.1: ConSERT(ConSERTOptions(soft_targets=0.3), encoder),
        0.05: SimCSE(SimCSEOptions(soft_targets=0.3, projection=False), encoder),
    }
    for temperature, method in methods.items():
        loss = method.loss(list(views), replace(batch, targets=targets))
        expected = reference.soft_info_nce(*views.double(), temperature, targets.double(), 0.3)
        torch.testing.assert_close(loss["soft_info_nce"].double(), expected, rtol=1e-5, atol=0)
        # The start is a copy, which is not trained.
        (start,) = method.teachers
        assert not any(parameter.requires_grad for parameter in method.parameters())
        with torch.no_grad():
            next(encoder.parameters()).add_(1)
        assert not torch.equal(next(start.parameters()), next(encoder.parameters()))


def test_a_rate_may_stand_behind_the_name_of_an_augmentation(encoder: Encoder) -> None:
    given = ("token_cutoff:0.4", "shuffle")
    assert ConSERT(ConSERTOptions(augmentations=given), encoder).augmentations == [
        TokenCutoff(0.4),
        Shuffle(),
    ]
    with pytest.raises(InputError, match=r"augmentation shuffle:0\.2: shuffle has no rate"):
        ConSERT(ConSERTOptions(augmentations=("shuffle:0.2", "none")), encoder)
    for name in (
        "token_cutoff:",
        "token_cutoff:1",
        "token_cutoff:-0.1",
        "token_cutoff:x",
        "cutoff:0.1",
    ):
        with pytest.raises(
            (ValidationError, InputError), match=r"at least 0 and below 1|unknown augmentation"
        ):
            ConSERTOptions(augmentations=(name, "none"))

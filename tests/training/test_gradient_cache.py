"""The gradient cache: chunks give the gradient of the whole batch, for every method, in memory that doesn't grow."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor, nn

from isotune.data.packed import Packed, pack
from isotune.encoder.encoder import Encoder
from isotune.methods import METHODS, method_class, mlm, self_guided
from isotune.methods.method import Batch, View
from isotune.methods.mlm import MLM
from isotune.methods.options.base import MethodOptions
from isotune.methods.options.consert import ConSERTJointOptions
from isotune.methods.options.flow import BERTCFOptions, FlowOptions
from isotune.methods.options.mlm import MLMOptions
from isotune.methods.options.self_guided import SelfGuidedOptions
from isotune.methods.options.simcse import SimCSEOptions
from isotune.methods.protocols import SeveralFeeds
from isotune.methods.simcse import SimCSE
from isotune.training import Result
from isotune.training.encoding import encode_views
from isotune.training.gradient_cache import GradientCache, Pass
from isotune.training.objectives import Objectives
from isotune.views.augmentation import FeatureCutoff, NoAugmentation, Shuffle, TokenCutoff
from tests.conftest import WORDS, attached, trained
from tests.methods.test_methods import make_batch
from tests.training.test_run import metrics

OPTIONS: dict[str, tuple[str, MethodOptions]] = {name: (name, entry.options()) for name, entry in METHODS.items()}
del OPTIONS["whitening"]  # nothing is minimised
OPTIONS |= {
    "adversarial": ("consert-joint", ConSERTJointOptions(augmentations=("none", "adversarial"))),
    "adversarial and another": ("consert-joint", ConSERTJointOptions(augmentations=("adversarial", "shuffle"))),
    "flow, not cached": ("flow", FlowOptions(cached=False)),
    "bert-cf, joint": ("bert-cf", BERTCFOptions(train_encoder=True)),
    "self-guided, one layer": ("self-guided", SelfGuidedOptions(objective="base", frozen_dropout=True)),
}


@pytest.fixture(autouse=True)
def _small_projection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_guided, "PROJECTION_WIDTH", 32)


class KeptGraphs(GradientCache):
    """The same chunks and random numbers without the cache."""

    def run(self, encode: Callable[[], Tensor]) -> Pass:
        one = super().run(encode)
        one.output = one.again()
        return one

    def backward(self) -> None:
        pass


def make(name: str, tiny_model: Path, sentences: list[str]) -> tuple[Encoder, Objectives, Batch]:
    """A method in float64, about to train, and nine rows of each of its kinds; twice the same."""
    torch.manual_seed(0)
    encoder = Encoder.load(tiny_model)
    for parameter in encoder.parameters():  # weights large enough for all of them to matter
        parameter.data += 0.1 * torch.randn_like(parameter)
    kind, options = OPTIONS[name]
    method = attached(method_class(kind)(options, encoder), encoder)
    encoder.train().requires_grad_(False)
    for parameter in trained(method, encoder):
        parameter.requires_grad_(True)
    rows = partial(make_batch, method, encoder=encoder, sentences=sentences)
    feeds = method.feeds() if isinstance(method, SeveralFeeds) else {}
    tasks = {task: in_double(rows(feed.rows, classes=len(feed.classes))) for task, feed in feeds.items()}
    batch = Batch(tasks=tasks) if tasks else in_double(rows(method.rows, classes=len(method.classes)))
    encoder.double()
    return encoder, Objectives(method.double()).train(), batch


def in_double(batch: Batch) -> Batch:
    targets = batch.targets
    if targets is not None and targets.is_floating_point():
        targets = targets.double()
    return replace(batch, targets=targets, vectors=tuple(vectors.double() for vectors in batch.vectors))


def gradient(
    encoder: Encoder, objectives: Objectives, batch: Batch, cache: GradientCache | None, half: bool = False
) -> Tensor:
    """The loss, and its gradient at all weights, in one row."""
    torch.manual_seed(1)
    batch.generator.manual_seed(2)
    generator = Generator().manual_seed(3) if cache is None else cache.generator.manual_seed(3)
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        requests = objectives.ask(batch)
        views = [view for request in requests for view in request.views]
        encoded = encode_views(encoder, views, generator, objectives.adversary(requests), cache)
        terms = objectives.terms(requests, encoded)
    loss = torch.stack([*terms.values(), *objectives.penalties(encoder).values()]).sum()
    loss.backward()
    if cache:
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            cache.backward()
    weights = [parameter for module in (encoder, objectives) for parameter in module.parameters()]
    gradients = [weight.grad.flatten() for weight in weights if weight.grad is not None]
    for weight in weights:
        weight.grad = None
    return torch.cat([loss.detach()[None], *gradients])


def assert_same(got: Tensor, expected: Tensor, tolerance: float = 1e-9) -> None:
    assert expected[1:].norm() > 0
    torch.testing.assert_close(got[0], expected[0], rtol=tolerance, atol=0)
    assert (got - expected).norm() <= tolerance * expected.norm()


@pytest.mark.parametrize("name", OPTIONS)
def test_the_cache_gives_the_gradient_of_the_kept_graphs(name: str, tiny_model: Path, sentences: list[str]) -> None:
    """Dropout and augmentations are drawn for each chunk: the second pass has to draw the same."""
    run = make(name, tiny_model, sentences)
    cached, kept = (gradient(*run, kind(2, Generator())) for kind in (GradientCache, KeptGraphs))
    assert_same(cached, kept)
    if any(weight.requires_grad for weight in run[0].backbone.parameters()):
        with run[0].backbone.dropout(0.0):
            assert gradient(*run, GradientCache(2, Generator()))[0] != cached[0]


@pytest.mark.parametrize("name", OPTIONS)
def test_without_randomness_chunks_give_what_one_pass_gives(
    name: str, tiny_model: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for augmentation in (Shuffle, FeatureCutoff, TokenCutoff):
        monkeypatch.setattr(augmentation, "positions", NoAugmentation.positions)
        monkeypatch.setattr(augmentation, "embeddings", NoAugmentation.embeddings)
    run = make(name, tiny_model, sentences)
    for module in (*run[0].modules(), *run[1].modules()):
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    expected = gradient(*run, None)
    for chunk_size in (1, 4):
        assert_same(gradient(*run, GradientCache(chunk_size, Generator())), expected)


def test_a_chunk_as_large_as_the_batch_is_the_plain_pass(tiny_model: Path, sentences: list[str]) -> None:
    run = make("consert", tiny_model, sentences)
    assert torch.equal(gradient(*run, GradientCache(9, Generator())), gradient(*run, None))


@pytest.fixture
def encoder(tiny_model: Path) -> Encoder:
    return Encoder.load(tiny_model).train()


@pytest.fixture
def tokens(encoder: Encoder, sentences: list[str]) -> Packed:
    return pack(encoder.tokenize(sentences[:9]))


def test_views_of_different_sizes_are_cut_alike(encoder: Encoder, tokens: Packed) -> None:
    few = pack([tokens.ids[:3].tolist(), tokens.ids[-20:].tolist()])
    cache = GradientCache(2, Generator())
    with encoder.backbone.dropout(0.0):
        expected = encode_views(encoder, [View(tokens), View(few)], Generator())
        found = encode_views(encoder, [View(tokens), View(few)], Generator(), cache=cache)
    for got, want in zip(found, expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


def test_bfloat16_is_replayed(tiny_model: Path, sentences: list[str]) -> None:
    run = make("simcse", tiny_model, sentences)
    run[0].float(), run[1].float()
    cached, kept = (gradient(*run, kind(2, Generator()), half=True) for kind in (GradientCache, KeptGraphs))
    assert cached[0] == kept[0]
    # The kept graphs share the weights' copies in bfloat16, in which their gradients are summed.
    assert_same(cached, kept, 1e-2)
    assert not torch.allclose(cached, gradient(*run, KeptGraphs(2, Generator())), rtol=1e-3)


def test_masked_tokens_in_blocks_lose_the_same(
    tiny_model: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make("mlm", tiny_model, sentences)
    expected = gradient(*run, None)
    monkeypatch.setattr(mlm, "BLOCK_TOKENS", 2)
    assert_same(gradient(*run, None), expected)


def test_what_is_kept_for_the_backward_pass_is_that_of_a_chunk(encoder: Encoder, sentences: list[str]) -> None:
    ids = encoder.tokenize(sentences)

    def peak(copies: int, chunk_size: int) -> int:
        """The most bytes that graphs hold at once."""
        held, most = 0, 0

        def let_go(size: int) -> None:
            nonlocal held
            held -= size

        class Held:
            def __init__(self, tensor: Tensor) -> None:
                nonlocal held, most
                self.tensor = tensor
                held += tensor.nbytes
                most = max(most, held)
                weakref.finalize(self, let_go, tensor.nbytes)

        view, generator = View(pack(ids * copies)), Generator()
        cache = GradientCache(chunk_size, generator)
        with torch.autograd.graph.saved_tensors_hooks(Held, lambda held: held.tensor):
            (vectors,) = encode_views(encoder, [view], generator, cache=cache)
            vectors.sum().backward()
            cache.backward()
        return most

    whole, chunked, of_more = peak(1, 60), peak(1, 6), peak(8, 6)
    assert chunked < whole / 4
    assert of_more < 1.2 * chunked


def test_with_masked_language_modelling_beside_another_method(tiny_model: Path, sentences: list[str]) -> None:
    encoder = Encoder.load(tiny_model).train()
    simcse = SimCSE(SimCSEOptions(projection=False), encoder)
    mlm = attached(MLM(MLMOptions(masking_rate=0.3), encoder, weight=0.1), encoder)
    objectives = Objectives(simcse, [mlm]).double().train()
    run = encoder.double(), objectives, make_batch(simcse, simcse.rows, encoder, sentences, 0)
    cached, kept = (gradient(*run, kind(2, Generator())) for kind in (GradientCache, KeptGraphs))
    assert_same(cached, kept)


def test_a_run_in_chunks_is_the_run(train: Callable[..., Result]) -> None:
    runs = [
        train(str(chunk_size), method="mirror", span_length=2, spans="tokens", model_dropout=0.0, chunk_size=chunk_size)
        for chunk_size in (None, 3)
    ]
    losses = [[record["loss"] for record in metrics(run.folder, "train")] for run in runs]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0] != losses[1]  # rounding


@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_the_loss_over_16384_sentences_is_the_uncached_one(tiny_model: Path, dropout: float) -> None:
    encoder = Encoder.load(tiny_model).double().train()
    generator = Generator().manual_seed(0)
    lengths = torch.randint(2, 12, (16_384,), generator=generator).tolist()
    batch = Batch((pack([torch.randint(5, 5 + len(WORDS), (n,), generator=generator).tolist() for n in lengths]),))
    objectives = Objectives(SimCSE(SimCSEOptions(projection=False), encoder))
    with encoder.backbone.dropout(dropout):
        expected = gradient(encoder, objectives, batch, KeptGraphs(64, Generator()) if dropout else None)
        assert_same(gradient(encoder, objectives, batch, GradientCache(64, Generator())), expected)

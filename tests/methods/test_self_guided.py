"""Self-guidance: what is compared with what, what is trained, and what holds the rest in place."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from isotune.data.packed import pack
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense
from isotune.errors import InputError
from isotune.methods import self_guided
from isotune.methods.method import Batch
from isotune.methods.options import SelfGuidedOptions
from isotune.methods.self_guided import SelfGuided
from tests.conftest import encode_views
from tests.reference import losses as reference
from tests.training.conftest import Train, assert_same_end, stop_and_resume

N, LAYERS = 6, 4  # the tiny model's embeddings and three blocks


@pytest.fixture
def batch(encoder: Encoder, sentences: list[str]) -> Batch:
    return Batch(
        (pack(encoder.tokenize(sentences[:N])),), generator=torch.Generator().manual_seed(5)
    )


def make(encoder: Encoder, **options: object) -> SelfGuided:
    """Without the projection, which is large, unless it is asked for."""
    return SelfGuided(SelfGuidedOptions.model_validate({"projection": False, **options}), encoder)


def encode(encoder: Encoder, method: SelfGuided, batch: Batch) -> list[Tensor]:
    return encode_views(encoder, method.views(batch))


def shift(encoder: Encoder) -> None:
    """Moves every weight of the encoder, so that it differs from the fixed copy."""
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))


@pytest.mark.parametrize("mode", ["max", "mean", "cls"])
def test_every_layer_of_the_untouched_model_is_a_view(
    encoder: Encoder, batch: Batch, tiny_model: Path, sentences: list[str], mode: str
) -> None:
    method = make(encoder, view_pooling=mode)
    shift(encoder)
    c, h = encode(encoder, method, batch)
    torch.testing.assert_close(c, torch.from_numpy(encoder.encode(sentences[:N])))
    assert h.shape == (N, LAYERS, 32)
    for layer in range(LAYERS):
        start = Encoder.load(tiny_model, pooling=mode, layers=[layer])  # type: ignore[arg-type]
        torch.testing.assert_close(
            h[:, layer], torch.from_numpy(start.encode(sentences[:N])), atol=1e-6, rtol=1e-5
        )


def test_only_some_layers_are_views_where_they_are_named(encoder: Encoder, batch: Batch) -> None:
    _, h = encode(encoder, make(encoder), batch)
    _, some = encode(encoder, make(encoder, view_layers=(-1, 1)), batch)
    torch.testing.assert_close(some, h[:, [3, 1]])
    with pytest.raises(InputError, match="pooling layer 4: the model has 3 blocks"):
        make(encoder, view_layers=(0, 4))


@pytest.mark.parametrize(
    ("objective", "formula"),
    [("base", "nt_xent"), ("opt1", "mirror_info_nce"), ("opt2", "info_nce")],
)
def test_the_other_objectives_are_the_papers_on_one_layer_of_each_sentence(
    encoder: Encoder, batch: Batch, objective: str, formula: str
) -> None:
    method = make(encoder, objective=objective, temperature=0.05)
    c, h = encode(encoder, method, batch)
    layer = torch.randint(LAYERS, (N,), generator=torch.Generator().manual_seed(5)).tolist()
    assert len(set(layer)) > 1
    drawn = torch.stack([h[i, k] for i, k in enumerate(layer)])
    expected = getattr(reference, formula)(c.double(), drawn.double(), 0.05)
    torch.testing.assert_close(
        method.loss([c, h], batch)[objective].double(), expected, rtol=1e-4, atol=0
    )


def test_every_layer_is_drawn_as_often_as_any_other(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawn(c: Tensor, h: Tensor, temperature: float) -> Tensor:
        return h.mean(0)

    monkeypatch.setitem(self_guided.OBJECTIVES, "opt1", drawn)  # type: ignore[arg-type]
    h = torch.eye(LAYERS).expand(20_000, LAYERS, LAYERS)
    shares = make(encoder, objective="opt1").loss([torch.ones(20_000, 1), h], Batch())["opt1"]
    torch.testing.assert_close(
        shares, torch.full((LAYERS,), 1 / LAYERS), atol=0.015, rtol=0
    )  # 5 standard deviations


def test_both_sides_are_projected_alike(encoder: Encoder, batch: Batch) -> None:
    method = make(encoder, projection=True, temperature=0.05)
    weights = dict(method.projection.named_parameters())
    assert [tuple(w.shape) for w in weights.values()] == [
        (4096, 32),
        (4096,),
        (4096, 4096),
        (4096,),
    ]
    for name, weight in weights.items():
        assert weight.std().item() == pytest.approx(0.02 * ("weight" in name), rel=0.02)
    with torch.no_grad():
        for weight in weights.values():
            weight.add_(0.01)  # a bias that is 0 shows nothing
    c, h = torch.randn(3, 32), torch.randn(3, 2, 32)

    def f(x: Tensor) -> Tensor:
        for i in ("0", "2"):
            x = nn.functional.gelu(x @ weights[f"{i}.weight"].T + weights[f"{i}.bias"])
        return x.double()

    expected = reference.self_guided_opt3(f(c), f(h), 0.05)
    torch.testing.assert_close(
        method.loss([c, h], batch)["opt3"].double(), expected, rtol=1e-3, atol=1e-6
    )


def test_the_penalty_is_the_squared_distance_of_all_weights(encoder: Encoder) -> None:
    method = make(encoder, regularizer=0.3)
    assert method.penalty(encoder)["regularizer"].item() == 0
    shift(encoder)
    penalty = method.penalty(encoder)["regularizer"]
    tuned, fixed = list(encoder.backbone.parameters()), list(method.frozen.parameters())
    torch.testing.assert_close(
        penalty.double(), 0.3 * reference.regularizer(tuned, fixed), rtol=1e-5, atol=0
    )
    penalty.backward()
    for one, other in zip(tuned, fixed, strict=True):
        torch.testing.assert_close(one.grad, 2 * 0.3 * (one - other).detach())
        assert other.grad is None
    assert make(encoder, regularizer=0).penalty(encoder) == {}


@pytest.mark.parametrize("kept", [False, True])
def test_dropout_in_the_fixed_copy_is_an_option(encoder: Encoder, batch: Batch, kept: bool) -> None:
    method = make(encoder, frozen_dropout=kept)
    encoder.train()
    method.train()
    (c1, h1), (c2, h2) = (encode_views(encoder, method.views(batch), seed=seed) for seed in (0, 1))
    assert not torch.equal(c1, c2)
    assert torch.equal(h1, h2) is not kept


def test_a_head_that_changes_the_dimension_is_refused(encoder: Encoder) -> None:
    parts = (encoder.backbone, encoder.pooling, [Dense(32, 8)], encoder.tokenizer, 32)
    with pytest.raises(InputError, match="vectors have 8 features and its layers 32"):
        make(Encoder(*parts))


@pytest.mark.parametrize("methods", [("simcse", "self-guided"), ("self-guided",)])
def test_a_stopped_run_goes_on_with_its_fixed_copy(
    train: Train, tiny_model: Path, methods: tuple[str, ...]
) -> None:
    """In a second stage it is no copy of the run's start. All but the embeddings is moved."""
    stages = [{"method": method, "projection": False} for method in methods]
    options = {"stages": stages, "dev": "none", "steps": 2, "eval_every": 1}
    folder = train("whole", **options).folder
    assert_same_end(folder, stop_and_resume(train, 2 * len(methods) - 2, **options).folder)
    whole = load_file(folder / "last.safetensors")
    if len(methods) == 1:
        assert not any("frozen" in name for name in whole)
        return
    for name, start in Encoder.load(tiny_model).backbone.named_parameters():
        fixed = whole[f"objectives.method.frozen.{name}"]
        assert not torch.equal(fixed, start)  # moved by the first stage
        assert torch.equal(whole[f"encoder.backbone.{name}"], fixed) is name.startswith(
            "model.embeddings."
        ), name

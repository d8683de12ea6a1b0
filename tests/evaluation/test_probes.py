import numpy as np
import pytest
import torch
from torch import Tensor, nn

from isotune.evaluation import probes
from isotune.evaluation.probes import train_probes
from tests.reference import senteval as reference

DECAYS = (1e-5, 1e-1)


def rows(count: int, features: int = 6, classes: int = 3) -> tuple[Tensor, Tensor]:
    """Features that tell something of the class, but not all."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(classes, (count,), generator=generator)
    x = torch.randn(count, features, generator=generator, dtype=torch.float64)
    return x + nn.functional.one_hot(y, features), y


def layers_of(model: nn.Module) -> list[Tensor]:
    """In the trainer's layout."""
    return [
        parameter if parameter.dim() == 2 else parameter[:, None]
        for parameter in model.parameters()
    ]


@pytest.mark.parametrize(("hidden", "seed"), [(0, 1111), (4, 7)])
@pytest.mark.parametrize(
    "count", [50, 65, 140]
)  # epochs of one batch, of one batch and a row, and of three batches
def test_decays_trained_together_are_those_trained_one_by_one(
    count: int, hidden: int, seed: int
) -> None:
    x, y = rows(200)
    train, dev = np.arange(count), np.arange(150, 190)
    trained = train_probes(x, y, train, dev, DECAYS, 3, hidden, seed)
    for place, decay in enumerate(DECAYS):
        model, accuracy = reference.fit(
            x[train], y[train], decay, 3, hidden, (x[dev], y[dev]), seed=seed
        )
        assert trained.accuracy[place].item() == accuracy
        for layer, expected in zip(trained.layers, layers_of(model), strict=True):
            assert torch.allclose(layer[place], expected, rtol=1e-9, atol=1e-12)
        assert trained.predict(x, place).tolist() == model(x).argmax(1).tolist()


def test_a_twentieth_is_held_out() -> None:
    x, y = rows(70)
    trained = train_probes(x, y, np.arange(70), None, [1e-3], classes=3)
    model, accuracy = reference.fit(x, y, 1e-3, 3, 0)
    assert trained.accuracy.item() == accuracy
    assert torch.allclose(trained.layers[0][0], layers_of(model)[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("accuracies", "looks", "best"),
    [
        (
            [0.5, 0.5, 0.6, 0.5, 0.5, 0.5, 0.7, 0.5, 0.5, 0.9],
            9,
            0.7,
        ),  # a gain does not reset the count of misses
        ([i / 100 for i in range(60)], 51, 0.5),  # after epochs 4, 8, ... 204
    ],
)
def test_training_ends_at_the_sixth_look_without_a_gain_or_past_200_epochs(
    accuracies: list[float], looks: int, best: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(accuracies)
    monkeypatch.setattr(
        probes, "_accuracy", lambda *_: torch.full((1,), next(left), dtype=torch.float64)
    )
    x, y = rows(5)
    trained = train_probes(x, y, np.arange(5), np.arange(3), [0.0], classes=3)
    assert trained.accuracy.item() == best
    assert len(list(left)) == len(accuracies) - looks


def test_training_leaves_the_callers_random_state_alone() -> None:
    x, y = rows(10)
    before, numbers = torch.random.get_rng_state(), np.random.get_state()[1].tolist()  # type: ignore[index]
    train_probes(x, y, np.arange(9), np.arange(9, 10), [0.0], classes=3)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert np.random.get_state()[1].tolist() == numbers  # type: ignore[index]

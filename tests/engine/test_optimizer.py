"""The optimiser: its updates, and the schedule."""

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from isotune.encoder.encoder import Encoder
from isotune.engine.objectives import Objectives, build_objectives
from isotune.engine.step import Optimizer, build_optimizer, schedule
from isotune.errors import InputError
from isotune.methods import METHODS, OPTIONS
from isotune.recipes import Stage, TrainingOptions


def test_frozen_blocks_and_embeddings_stay_and_all_others_are_trained(encoder: Encoder) -> None:
    method = METHODS["consert"](OPTIONS["consert"](), encoder)
    trained = build_optimizer(
        encoder, Objectives(method), TrainingOptions(frozen_blocks=1)
    ).parameters
    assert list(map(id, trained)) == list(map(id, encoder.backbone.blocks[1:].parameters()))
    with pytest.raises(
        InputError, match="frozen_blocks 3: the model has 3 blocks; give a lower number"
    ):
        build_optimizer(encoder, Objectives(method), TrainingOptions(frozen_blocks=3))


def test_frozen_blocks_are_checked_when_objectives_are_made(encoder: Encoder) -> None:
    stage = Stage.model_validate({"method": "simcse", "frozen_blocks": 3})
    with pytest.raises(InputError, match="frozen_blocks 3: the model has 3 blocks"):
        build_objectives(stage, encoder)


def test_sgd_is_the_textbook_update() -> None:
    block = nn.Linear(4, 4)
    options = TrainingOptions(
        learning_rate=0.1, as_released={"optimizer": "sgd"}, betas=(0.0, 0.0), weight_decay=0.5
    )
    optimizer = Optimizer([*block.parameters()], options)
    block(torch.randn(6, 4)).square().sum().backward()
    weight, bias = block.weight.detach().clone(), block.bias.detach().clone()
    gradients = [parameter.grad.clone() for parameter in (block.weight, block.bias)]  # type: ignore[union-attr]
    optimizer.step(0.5)
    torch.testing.assert_close(block.weight, weight - 0.05 * (gradients[0] + 0.5 * weight))
    torch.testing.assert_close(block.bias, bias - 0.05 * gradients[1])  # no decay
    assert block.weight.grad is None


def adamw_step(
    weight: Tensor,
    gradient: Tensor,
    averages: list[Tensor],
    step: int,
    rate: float,
    options: TrainingOptions,
) -> Tensor:
    """Loshchilov and Hutter 2019, algorithm 2, lines 6 to 12, literally; `step` counts from 1."""
    beta1, beta2 = options.betas
    averages[0] = beta1 * averages[0] + (1 - beta1) * gradient
    averages[1] = beta2 * averages[1] + (1 - beta2) * gradient**2
    first, second = averages
    if options.as_released.bias_correction:
        first, second = first / (1 - beta1**step), second / (1 - beta2**step)
    decay = options.weight_decay if weight.ndim > 1 else 0.0
    return weight - rate * (first / (second.sqrt() + options.epsilon) + decay * weight)


@pytest.mark.parametrize(
    "as_released", [{"bias_correction": True}, {"bias_correction": False}], ids=str
)
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.9, 0.9), (0.0, 0.5)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 1e-4)])
def test_adamw_is_its_transcription(
    as_released: Any, betas: tuple[float, float], dtype: torch.dtype, tolerance: float
) -> None:
    options = TrainingOptions(
        learning_rate=0.01, weight_decay=0.1, betas=betas, as_released=as_released
    )
    weights = [
        nn.Parameter(torch.randn(3, 4, dtype=dtype)),
        nn.Parameter(torch.randn(4, dtype=dtype)),
    ]
    optimizer = Optimizer(weights, options)
    expected = [weight.detach().double() for weight in weights]
    averages = [[torch.zeros_like(weight)] * 2 for weight in expected]
    for step in range(1, 301):
        factor = step / 300
        gradients = [torch.randn_like(weight).double() for weight in weights]
        for place, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
            weight.grad = gradient.to(dtype)
            expected[place] = adamw_step(
                expected[place], gradient, averages[place], step, 0.01 * factor, options
            )
        optimizer.step(factor)
    for weight, true in zip(weights, expected, strict=True):
        torch.testing.assert_close(weight.detach().double(), true, rtol=tolerance, atol=tolerance)


def test_schedules_rise_and_fall_as_they_should() -> None:
    def shares(**options: Any) -> list[float]:
        training = TrainingOptions(**options)
        warmup = training.warmup_steps(10, 2)
        return [round(schedule(step, 10, warmup, training), 4) for step in range(10)]

    assert shares(warmup=0.2) == [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]
    assert shares(warmup="2 steps") == shares(warmup="1 epochs") == shares(warmup=0.2)
    assert shares(warmup="9 epochs") == [round((step + 1) / 10, 4) for step in range(10)]
    with pytest.raises(ValidationError, match="warmup"):
        shares(warmup="1 hour")
    assert shares(warmup=0.2, schedule="constant") == [0.5] + [1.0] * 9
    cosine = shares(warmup=0.0, schedule="cosine")
    assert cosine[0] == 1.0
    assert cosine[5] == 0.5
    assert sorted(cosine, reverse=True) == cosine

"""Candidates between a start and an end: their weights, and which of them is kept."""

import numpy as np
import pytest
import torch

from isotune.training.candidates import (
    START,
    Candidate,
    distance,
    gentlest_of_the_best,
    interpolate,
)


def test_weights_between_start_and_end() -> None:
    start = {"a": torch.tensor([0.0, 1.0]), "b": torch.tensor(3.0), "n": torch.tensor([1, 2])}
    end = {"a": torch.tensor([4.0, 1.0]), "b": torch.tensor(0.0), "n": torch.tensor([5, 6])}
    quarter = interpolate(start, end, 0.25)
    torch.testing.assert_close(quarter["a"], torch.tensor([1.0, 1.0]))
    torch.testing.assert_close(quarter["b"], torch.tensor(2.25))
    assert torch.equal(quarter["n"], end["n"])
    whole = interpolate(start, end, 1.0)
    assert all(torch.equal(whole[name], value) for name, value in end.items())
    assert distance(start, end) == pytest.approx(5)
    assert distance(start, quarter) == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("leads", "confidence", "kept"),
    [
        ([0.0, 3.0, 3.5], 0.95, 1),  # surely better than the start, and the last is not surely
        ([0.0, 0.1, 0.2], 0.95, 0),  # all may be chance
        ([0.0, 0.3, 0.6], 0.0, 2),  # the best score
        ([0.0, 0.001, 0.002], 0.0, 2),  # the best score, whatever the samples say
        ([3.0, 0.0, 2.5], 0.95, 0),  # the start is best
        ([0.0, 3.0, 9.0], 0.95, 2),
    ],
)
def test_the_gentlest_is_kept_that_the_best_does_not_beat_by_more_than_chance(
    leads: list[float], confidence: float, kept: int
) -> None:
    noise = np.random.default_rng(0).normal(size=(3, 1000))
    samples = np.array(leads)[:, None] + 0.8 * noise
    assert gentlest_of_the_best(samples, leads, confidence) == kept


def test_what_the_log_calls_a_candidate() -> None:
    told = [str(START), str(Candidate(40, 0.25)), str(Candidate(40))]
    assert told == ["the start", "0.25 of the way to step 40", "step 40"]

"""The benchmark's own arithmetic, and a worker that does what it is told; no peer is needed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from isotune.encoder.encoder import Encoder

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its modules import each other by their plain names."""
    monkeypatch.syspath_prepend(str(FOLDER))


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


def test_rounds_take_turns_and_a_first_one_does_not_count() -> None:
    rounds, machine = module("rounds"), module("machine")
    order: list[str] = []

    def run(name: str) -> Any:
        order.append(name)
        return rounds.Took(float(len(order)), 0.5)

    noise = machine.Noise()
    took = rounds.in_turn({name: lambda name=name: run(name) for name in "abc"}, 3, noise)
    assert "".join(order) == "abc" + "abc" + "bca" + "cab"
    assert [one.wall for one in took["a"]] == [4.0, 9.0, 11.0]
    assert rounds.seconds(took["a"], 1) == [0.5] * 3
    assert rounds.seconds(took["a"], 2) == [4.0, 9.0, 11.0]
    assert noise.wall > 0


def test_ratios_are_of_rounds_and_spread_is_of_their_median() -> None:
    rounds = module("rounds")
    assert rounds.ratio([2.0, 30.0, 4.0], [1.0, 10.0, 1.0]) == 3.0
    assert rounds.spread([9.0, 10.0, 12.0]) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("others", "steal", "spreads", "quiet"),
    [(0.1, 0.0, [0.02], True), (30.0, 0.0, [0.02], False), (0.1, 9.0, [0.02], False), (0.1, 0.0, [0.3], False)],
)
def test_a_quiet_machine_is_told_from_one_that_is_not(
    others: float, steal: float, spreads: list[float], quiet: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = module("machine")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    noise = machine.Noise(spreads=spreads)
    noise.add(50.0, others, steal)
    assert ("was quiet" in noise.verdict()) == quiet
    assert f"other processes took {others / 100:.1%}" in noise.verdict()


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Any]:
    made = module("worker").Worker(tmp_path / "log")
    yield made
    made.close()


@pytest.mark.slow
def test_a_worker_encodes_as_the_package_does(
    worker: Any, tiny_model: Path, sentences: list[str], tmp_path: Path
) -> None:
    settings = {"contender": "isotune", "model": str(tiny_model), "cache": str(tmp_path), "precision": "float32"}
    worker.ask("load", key="a", threads=1, **settings)
    worker.ask("load", key="b", threads=1, within=True, batch_bytes=12_800, **settings)
    expected = Encoder.load(tiny_model).encode(sentences)
    for key in "ab":
        took = worker.ask("encode", key=key, texts=sentences, save=str(tmp_path / f"{key}.npy"))
        assert min(took["wall"], took["cpu"]) > 0
        found = np.load(tmp_path / f"{key}.npy")
        cosines = (found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)
        assert cosines.min() > 0.99999
    with pytest.raises(RuntimeError, match="its last words are in"):
        worker.ask("encode", key="none", texts=[], save=None)


@pytest.mark.slow
def test_a_worker_trains_as_many_steps_as_it_is_told(worker: Any, tiny_model: Path, sentences: list[str]) -> None:
    options = {"contender": "isotune", "model": str(tiny_model), "precision": "float32", "threads": 1, "batch": 12}
    worker.tell("train", timed=True, texts=sentences, dropout=0.1, **options)
    took = [worker.ask("steps", count=count) for count in (1, 4)]
    assert all(one["wall"] > 0 for one in took)


@pytest.mark.slow
def test_what_a_worker_learned(worker: Any, tiny_model: Path, sentences: list[str]) -> None:
    options = {"contender": "isotune", "model": str(tiny_model), "precision": "float32", "threads": 1, "batch": 12}
    found = worker.ask("train", timed=False, texts=sentences, dropout=0.0, pairs=[sentences[:2]], **options)
    assert len(found["losses"]) == 5
    assert sorted(row for step in found["order"] for row in step) == list(range(60))
    assert found["losses"][-1] < found["losses"][0]
    (cosine,) = found["cosines"]
    assert -1 <= cosine <= 1

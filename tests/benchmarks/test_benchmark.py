"""The benchmarks' arithmetic, the description of the machine, and the worker processes. No peer is needed."""

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
    """Lets the benchmarks' modules import each other by their plain names."""
    monkeypatch.syspath_prepend(str(FOLDER))


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


def test_contenders_take_turns_and_the_first_round_does_not_count() -> None:
    rounds, machine = module("rounds"), module("machine")
    order: list[str] = []

    def run(name: str) -> Any:
        order.append(name)
        return rounds.Timing(float(len(order)), 0.5)

    noise = machine.Noise()
    timings = rounds.in_turn({name: lambda name=name: run(name) for name in "abc"}, 3, noise)
    assert "".join(order) == "abc" + "abc" + "bca" + "cab"
    assert [timing.wall for timing in timings["a"]] == [4.0, 9.0, 11.0]
    assert rounds.seconds(timings["a"], 1) == [0.5] * 3
    assert rounds.seconds(timings["a"], 2) == [4.0, 9.0, 11.0]
    assert noise.wall > 0


def test_a_speedup_is_the_median_of_the_rounds_ratios_and_a_spread_is_relative_to_the_median() -> None:
    rounds = module("rounds")
    assert rounds.speedup([2.0, 30.0, 4.0], [1.0, 10.0, 1.0]) == 3.0
    assert rounds.spread([9.0, 10.0, 12.0]) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("others", "steal", "spreads", "quiet"),
    [(0.1, 0.0, [0.02], True), (30.0, 0.0, [0.02], False), (0.1, 9.0, [0.02], False), (0.1, 0.0, [0.3], False)],
)
def test_the_verdict_says_whether_the_machine_was_quiet(
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
    process = module("worker").Worker(tmp_path / "log")
    yield process
    process.close()


@pytest.mark.slow
def test_a_worker_encodes_as_the_package_does(
    worker: Any, tiny_model: Path, sentences: list[str], tmp_path: Path
) -> None:
    settings = {"contender": "isotune", "model": str(tiny_model), "cache": str(tmp_path), "precision": "float32"}
    worker.ask("load", key="a", threads=1, **settings)
    worker.ask("load", key="b", threads=1, within=True, batch_bytes=12_800, **settings)
    expected = Encoder.load(tiny_model).encode(sentences)
    for key in "ab":
        timing = worker.ask("encode", key=key, texts=sentences, save=str(tmp_path / f"{key}.npy"))
        assert min(timing["wall"], timing["cpu"]) > 0
        vectors = np.load(tmp_path / f"{key}.npy")
        cosines = (vectors * expected).sum(1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(expected, axis=1)
        assert cosines.min() > 0.99999
    with pytest.raises(RuntimeError, match="a worker process has ended"):
        worker.ask("encode", key="none", texts=[], save=None)


@pytest.mark.slow
def test_a_worker_trains_and_reports_losses_order_and_cosines(
    worker: Any, tiny_model: Path, sentences: list[str]
) -> None:
    options = {"contender": "isotune", "model": str(tiny_model), "precision": "float32", "threads": 1, "batch": 12}
    result = worker.ask("train", timed=False, texts=sentences, dropout=0.0, pairs=[sentences[:2]], **options)
    assert len(result["losses"]) == 5
    assert sorted(row for step in result["order"] for row in step) == list(range(60))
    assert result["losses"][-1] < result["losses"][0]
    (cosine,) = result["cosines"]
    assert -1 <= cosine <= 1
    worker.tell("train", timed=True, texts=sentences, dropout=0.1, **options)
    assert all(worker.ask("steps", count=count)["wall"] > 0 for count in (1, 4))

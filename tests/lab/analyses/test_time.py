from __future__ import annotations

from collections import UserDict
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from isotune.lab.analyses import time
from tests.lab.analyses.conftest import made_pairs


class Clock:
    """Time passes only while something encodes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.turns: list[str] = []
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)


class Slow:
    """Takes these seconds, one after the other."""

    device = torch.device("cpu")

    def __init__(self, clock: Clock, name: str, *seconds: float) -> None:
        self.clock, self.name, self.seconds = clock, name, iter(seconds)

    def encode(self, sentences: Sequence[str], /) -> NDArray[np.float64]:
        assert len(sentences) == 4
        self.clock.now += next(self.seconds)
        self.clock.turns.append(self.name)
        return np.zeros((len(sentences), 2))


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    clock = Clock(monkeypatch)
    encoders = {"a": Slow(clock, "a", 100, 1, 5, 2), "b": Slow(clock, "b", 100, 8, 8, 9)}
    made = time.compute(encoders, [made_pairs([0, 5])], repeats=3)
    assert clock.turns == ["a", "b"] * 4
    return made


def test_the_result_is_the_median_of_turns_after_a_warm_up(table: list[dict[str, object]]) -> None:
    assert [(row["encoder"], row["seconds"], row["passes"]) for row in table] == [
        ("a", 2, [1, 5, 2]),
        ("b", 8, [8, 8, 9]),
    ]
    assert table[0] | {"sentences": 4, "device": "cpu", "threads": torch.get_num_threads()} == table[0]


def test_sentences_come_in_batches_shortest_first() -> None:
    class Listening:
        def __init__(self) -> None:
            self.batches: list[list[str]] = []

        def encode(self, sentences: Sequence[str], /) -> NDArray[np.float64]:
            self.batches.append(list(sentences))
            return np.zeros((len(sentences), 2))

    encoder, pairs = Listening(), made_pairs([0, 5, 3, 4, 1])
    time.compute({"a": encoder}, [pairs], repeats=1, batch_size=4)
    assert [len(batch) for batch in encoder.batches] == [4, 4, 2] * 2
    heard = [sentence for batch in encoder.batches[:3] for sentence in batch]
    assert sorted(heard) == sorted(pairs.sentence1 + pairs.sentence2)
    assert list(map(len, heard)) == sorted(map(len, heard))


def test_an_encoder_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study loads one whenever it is asked for; the second would be cold again."""
    clock, loaded = Clock(monkeypatch), []

    class Loading(UserDict[str, Slow]):
        def __getitem__(self, name: str) -> Slow:
            loaded.append(name)
            return super().__getitem__(name)

    time.compute(Loading(a=Slow(clock, "a", 100, 1, 5, 2)), [made_pairs([0, 5])], repeats=3)
    assert loaded == ["a"]


def test_findings_say_the_median_and_the_range(table: list[dict[str, object]]) -> None:
    assert time.findings(table)[0] == (
        "a: 2.00 s for 4 sentences in batches of 16 (median of 3, from 1.00 to 5.00), 2 a second; cpu, threads: 1."
    )


def test_a_bar_for_each_encoder(table: list[dict[str, object]]) -> None:
    (ax,) = time.draw(table).axes
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b"]
    assert [(bar.get_y() + bar.get_height() / 2, bar.get_width()) for bar in ax.patches] == [(0, 2), (1, 8)]
    assert sorted(map(tuple, ax.lines[0].get_xydata())) == [(1, 0), (2, 0), (5, 0), (8, 1), (8, 1), (9, 1)]
    assert ax.get_xlabel() == "seconds to encode 4 sentences"

from collections import UserDict
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from isotune.lab.analyses import time
from tests.lab.analyses.conftest import made_pairs


class Slow:
    """Takes these seconds, one after the other; time passes only while something encodes."""

    now = 0.0
    turns: ClassVar[list[tuple[str, list[str]]]] = []

    def __init__(self, name: str, *seconds: float) -> None:
        self.name, self.seconds = name, iter(seconds)

    def encode(self, sentences: Sequence[str], /) -> NDArray[np.float64]:
        Slow.now += next(self.seconds)
        Slow.turns.append((self.name, list(sentences)))
        return np.zeros((len(sentences), 2))


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter", lambda: Slow.now)
    monkeypatch.setattr(Slow, "turns", [])


def test_the_result_is_the_median_of_turns_after_a_warm_up() -> None:
    encoders = {"a": Slow("a", 100, 1, 5, 2), "b": Slow("b", 100, 8, 8, 9)}
    table = time.compute(encoders, [made_pairs([0, 5])], repeats=3)
    assert [name for name, _ in Slow.turns] == ["a", "b"] * 4
    seconds = [(row["encoder"], row["seconds"], row["passes"]) for row in table]
    assert seconds == [("a", 2, [1, 5, 2]), ("b", 8, [8, 8, 9])]
    assert time.findings(table)[0] == (
        "a: 2.00 s for 4 sentences in batches of 16 (median of 3, from 1.00 to 5.00), 2 a second; cpu, threads: "
        f"{torch.get_num_threads()}."
    )
    (ax,) = time.draw(table).axes
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b"]
    assert [(bar.get_y() + bar.get_height() / 2, bar.get_width()) for bar in ax.patches] == [(0, 2), (1, 8)]
    assert sorted(map(tuple, ax.lines[0].get_xydata())) == [(1, 0), (2, 0), (5, 0), (8, 1), (8, 1), (9, 1)]


def test_sentences_come_in_batches_shortest_first() -> None:
    pairs = made_pairs([0, 5, 3, 4, 1])
    time.compute({"a": Slow("a", *[1] * 6)}, [pairs], repeats=1, batch_size=4)
    assert [len(batch) for _, batch in Slow.turns] == [4, 4, 2] * 2
    heard = [sentence for _, batch in Slow.turns[:3] for sentence in batch]
    assert sorted(heard) == sorted(pairs.sentence1 + pairs.sentence2)
    assert list(map(len, heard)) == sorted(map(len, heard))


def test_an_encoder_is_loaded_once() -> None:
    """A study loads one whenever it is asked for; the second would be cold again."""
    loaded = []

    class Loading(UserDict[str, Slow]):
        def __getitem__(self, name: str) -> Slow:
            loaded.append(name)
            return super().__getitem__(name)

    time.compute(Loading(a=Slow("a", 100, 1, 5, 2)), [made_pairs([0, 5])], repeats=3)
    assert loaded == ["a"]

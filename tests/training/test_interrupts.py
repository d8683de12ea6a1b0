"""Ctrl-C ends what is no step at once, and nothing is lost: the same command or resuming goes
on."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from isotune.encoder import model as encoder_module
from isotune.encoder.encoder import Encoder
from isotune.engine.loader import FeedLoader
from isotune.training import outcome, selection
from tests.training.conftest import Train, assert_same_end, metrics, resume, same, weights


class Interrupt:
    """Calls a function, but raises SIGINT in one of its calls.

    What would come after the signal is `late`.
    """

    def __init__(self, function: Callable[..., Any], call: int) -> None:
        self.function = function
        self.call = call
        self.calls = 0
        self.late = False

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        if self.calls == self.call:
            signal.raise_signal(signal.SIGINT)
            self.late = True
        assert self.calls <= self.call, "the work goes on after the signal"
        return self.function(*arguments, **options)

    def method(self) -> Callable[..., Any]:
        """This, to stand in a class."""
        return lambda *arguments, **options: self(*arguments, **options)


def interrupted(train: Callable[[], object], owner: Any, name: str, call: int = 1) -> None:
    """Runs what is interrupted in a call of a function, and checks that it ends at once."""
    interrupt = Interrupt(getattr(owner, name), call)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, interrupt.method())
        with pytest.raises(KeyboardInterrupt):
            train()
    assert interrupt.calls == call
    assert not interrupt.late


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a pass have a few sentences."""
    monkeypatch.setitem(encoder_module.BATCH_BYTES, "cpu", 30 * 32 * 4)


SIMCSE = {
    "method": "simcse",
    "steps": 4,
    "eval_every": 2,
    "batch_size": 8,
    "learning_rate": 1e-3,
}
STAGES: dict[str, list[dict[str, Any]]] = {
    "only": [{"method": "whitening", "dimensions": 8}],
    "first": [{"method": "sif"}, SIMCSE],
}


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("stages", STAGES)
def test_a_closed_form_ends_while_it_reads(stages: str, train: Train, tmp_path: Path) -> None:
    of_stage = dict.fromkeys(("steps", "eval_every", "batch_size", "learning_rate"))
    options = {"stages": STAGES[stages], **of_stage}
    interrupted(lambda: train(**options), FeedLoader, "_pool_batch", 2)
    resumed = resume(tmp_path / "run")
    assert same(weights(resumed.folder), weights(train("whole", **options).folder))


class Sentences:
    """Rows that raise SIGINT at the twentieth sentence of a reading."""

    def __init__(self, sentences: list[str], reading: int) -> None:
        self.sentences = sentences
        self.reading = reading
        self.readings = 0

    def __iter__(self) -> Iterator[str]:
        self.readings += 1
        for number, sentence in enumerate(self.sentences):
            assert self.readings <= self.reading, "the run goes on after the signal"
            if self.readings == self.reading and number == 20:
                signal.raise_signal(signal.SIGINT)
            yield sentence


def check_nothing_is_left(train: Train, tmp_path: Path) -> None:
    """Checks that the same command can be given again."""
    assert not (tmp_path / "run").exists()
    assert train(steps=1).stopped is None


@pytest.mark.parametrize("reading", [2, 3])
def test_a_run_ends_while_it_reads(
    reading: int, train: Train, sentences: list[str], tmp_path: Path
) -> None:
    rows = Sentences(sentences, reading)
    with pytest.raises(KeyboardInterrupt):
        train(sources=None, rows=rows)
    assert rows.readings == reading
    check_nothing_is_left(train, tmp_path)


@pytest.mark.parametrize(
    ("owner", "name", "call"),
    [
        # The first call tries a short row.
        (Encoder, "tokenize", 2),
        (selection, "score_task", 1),
    ],
)
def test_a_run_ends_before_its_first_step(
    owner: Any, name: str, call: int, train: Train, tmp_path: Path
) -> None:
    interrupted(train, owner, name, call)
    check_nothing_is_left(train, tmp_path)


def test_a_run_ends_while_it_compares(train: Train, tmp_path: Path) -> None:
    interrupted(train, outcome, "resampled_scores", 2)
    resumed = resume(tmp_path / "run")
    assert_same_end(train("whole").folder, resumed.folder)


@pytest.mark.parametrize("call", [2, 4])
def test_an_evaluation_between_steps_is_broken_off_and_made_by_the_resumed_run(
    call: int, train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one is the fourth, after the last step."""
    interrupt = Interrupt(selection.score_task, call)
    with monkeypatch.context() as patch:
        patch.setattr(selection, "score_task", interrupt)
        stopped = train()
    assert stopped.stopped == "SIGINT"
    assert not interrupt.late
    assert len(metrics(stopped.folder, "dev")) == call - 1
    log = (stopped.folder / "train.log").read_text("utf-8")
    assert f"stopped after step {4 * (call - 1)} of 12" in log
    resumed = resume(stopped.folder)
    assert resumed.stopped is None
    assert_same_end(train("whole").folder, resumed.folder)

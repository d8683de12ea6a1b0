"""Training on some of the rows, drawn by the seed."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from isotune.data.rows import Sentence
from isotune.errors import InputError
from isotune.methods import OPTIONS
from isotune.training.run_data import _draw, _sample, _sizes_in_shares
from tests.training.conftest import Train, assert_same_end, metrics, stop_and_resume

ROWS = [Sentence(f"sentence {i}") for i in range(20)]


def test_a_sample_is_of_the_rows_in_their_order_and_follows_from_the_seed() -> None:
    kept = _sample(ROWS, 7, 1)
    assert len(kept) == 7
    assert kept == [row for row in ROWS if row in kept]
    assert kept == _sample(iter(ROWS), 7, 1)
    assert kept != _sample(ROWS, 7, 2)
    assert _sample(ROWS, 20, 1) == ROWS
    with pytest.raises(InputError, match=r"sample 21 of 20 rows; give 20 or less"):
        _sample(ROWS, 21, 0)


def test_a_sample_is_repeated_to_about_the_size_of_the_data() -> None:
    """As in ConSERT's code: the sample as a list, times the whole part of 1 / (its share of the
    data)."""
    for size, times in ((1, 20), (3, 6), (7, 2), (11, 1), (20, 1)):
        assert _sample(ROWS, size, 1, upsample=True) == _sample(ROWS, size, 1) * times


def test_each_row_is_as_likely_as_any_other() -> None:
    counts = Counter(row for seed in range(4000) for row in _sample(ROWS, 5, seed))
    expected, deviation = 4000 * 5 / 20, (4000 * 0.25 * 0.75) ** 0.5
    assert all(abs(counts[row] - expected) < 4.5 * deviation for row in ROWS)


def test_a_run_trains_on_the_sample(train: Train) -> None:
    found = [
        json.loads(
            (
                train(name, sample=10, seed=seed, steps=1, dev="none").folder / "data.json"
            ).read_text()
        )["stage 1"]
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    ]
    assert [one["rows"] for one in found] == [10, 10, 10]
    assert found[0]["sha256"] == found[1]["sha256"] != found[2]["sha256"]


CLOSED_FORMS = [name for name, options in OPTIONS.items() if not options.takes_steps]


# A classifier needs labels, which this text lacks; and a run with a teacher holds sentences out.
@pytest.mark.parametrize("method", sorted({*CLOSED_FORMS} - {"classifier", "linear-map"}))
def test_a_closed_form_takes_no_more_rows_than_it_needs(
    method: str, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = {
        "method": method,
        "steps": None,
        "eval_every": None,
        "learning_rate": None,
        "batch_size": None,
    }
    found = {}
    for enough in (60, 40):
        monkeypatch.setattr("isotune.methods.method.ENOUGH", enough)
        folder = train(f"{enough}", **closed).folder
        found[enough] = json.loads((folder / "data.json").read_text())["stage 1"]["rows"]
        said = "the stage takes 40 of the 60 rows" in (folder / "train.log").read_text()
        assert said == (enough < 60)
    assert found == {60: 60, 40: 40}
    assert len(_draw(ROWS, 30, 0)[0]) == 20


def test_a_stage_takes_no_more_rows_than_its_steps_take(train: Train) -> None:
    found = {}
    for steps in (2, 100):
        folder = train(f"{steps}", batch_size=8, steps=steps, eval_every=100).folder
        found[steps] = json.loads((folder / "data.json").read_text())["stage 1"]["rows"]
        assert ("the stage takes 16 of the 60 rows" in (folder / "train.log").read_text()) == (
            steps == 2
        )
    assert found == {2: 16, 100: 60}


def test_a_run_trains_on_copies_of_a_single_text(train: Train) -> None:
    options = {"method": "consert", "augmentations": ["feature_cutoff", "shuffle"], "sample": 1}
    with pytest.raises(InputError, match="one sentence only"):
        train("one", **options)
    result = train("copies", **options, as_released={"upsample": True})
    data = json.loads((result.folder / "data.json").read_text())["stage 1"]
    assert (data["rows"], data["distinct"]) == (60, 1)
    losses = [record["loss"] for record in metrics(result.folder, "train")]
    assert all(0 < loss < 20 for loss in losses)


@pytest.mark.parametrize(
    ("counts", "shares", "sizes"),
    [
        ([40, 90], (1, 2), [40, 80]),
        ([40, 60], (1, 2), [30, 60]),
        ([40, 90], (1, 1), [40, 40]),
        ([7, 100, 5], (0.5, 0.25, 0.25), [7, 4, 4]),
        ([0, 10], (1, 1), [0, 0]),
        ([10, 3], (100, 1), [10, 0]),
    ],
)
def test_as_many_rows_are_taken_as_the_shares_allow(
    counts: list[int], shares: tuple[float, ...], sizes: list[int]
) -> None:
    assert _sizes_in_shares(counts, shares) == sizes


def test_a_run_takes_rows_in_shares(train: Train, text: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("".join(f"the red cat number {i}\n" for i in range(100)))
    options = {"sources": [f"{text}*2", str(other)], "steps": 4, "dev": "none"}
    runs = [train(f"seed{number}", **options, seed=seed) for number, seed in enumerate((0, 0, 1))]
    found = [json.loads((run.folder / "data.json").read_text())["stage 1"] for run in runs]
    assert found[0]["sha256"] == found[1]["sha256"] != found[2]["sha256"]
    said = (runs[0].folder / "train.log").read_text()
    assert f"shares: 60 of the 60 rows of {text}" in said
    assert f"shares: 30 of the 100 rows of {other}" in said
    assert_same_end(runs[0].folder, stop_and_resume(train, 1, **options).folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sources": "a.txt*0"}, r"a.txt\*0: a share is a number above 0, as in a.txt\*2"),
        ({"sources": "gone.txt*2"}, "gone.txt: no such file"),
        ({"sources": "gone*2"}, "unknown file or dataset 'gone'"),
        ({"sources": ["-*2"]}, "standard input is read only once"),
    ],
)
def test_shares_that_can_not_be_taken_are_refused(
    changes: dict[str, Any], message: str, train: Train
) -> None:
    with pytest.raises(InputError, match=message):
        train(**changes)


def test_a_source_that_is_too_small_for_its_share_is_refused(
    train: Train, text: Path, tmp_path: Path
) -> None:
    (tmp_path / "other.txt").write_text("the red cat\n" * 9)
    sources = [f"{text}*1000", str(tmp_path / "other.txt")]
    with pytest.raises(InputError, match=r"other.txt: 9 rows, of which none is taken"):
        train(sources=sources, steps=1)

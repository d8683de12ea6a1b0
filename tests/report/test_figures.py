from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from isotune.report.figures import before_and_after, learning_curves
from isotune.report.stages import StageRecords

Records = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def undrawn() -> None:
    """Has figures drawn here."""


def train(steps: int, **terms: float) -> Records:
    return [
        {
            "kind": "train",
            "step": i + 1,
            "loss": 1 / (i + 1) + sum(terms.values()),
            "terms": terms or {"info_nce": 1},
        }
        for i in range(steps)
    ]


def dev(scores: list[float], best: int = 0, metric: str = "spearman", start: int = 0) -> Records:
    return [
        {
            "kind": "dev",
            "step": start + 10 * i,
            "metric": metric,
            "score": s,
            "best": i in (0, best),
        }
        for i, s in enumerate(scores)
    ]


def space(*values: tuple[int, float, float]) -> Records:
    return [
        {"step": step, "mean_cosine": cosine, "effective_rank": rank}
        for step, cosine, rank in values
    ]


def stage(
    train: Records = (), dev: Records = (), space: Records = (), number: int = 1
) -> StageRecords:  # type: ignore[assignment]
    return StageRecords(number, "simcse", train, dev, space)


def learning_curve(train: Records, dev: Records) -> str:
    (svg,) = learning_curves([stage(train, dev)])
    return svg


def cosines(**encoders: np.ndarray) -> str:
    return before_and_after({"gold": np.arange(float(len(encoders["before"]))), **encoders})


def texts(svg: str) -> list[str]:
    return [text for text in ElementTree.fromstring(svg).itertext() if text.strip()]


@pytest.mark.parametrize(
    ("train", "dev", "shown", "absent"),
    [
        (train(20), [], {"training loss"}, {"dev Spearman x 100"}),
        (train(5, info_nce=1, mlm=2), [], {"info_nce", "mlm", "sum"}, set()),
        (train(5, info_nce=1), [], {"training loss"}, {"info_nce", "sum"}),
        (
            [],
            dev([0.3, 0.5, 0.4], best=1),
            {"start: 30.00", "kept: 50.00 at step 10"},
            {"training loss"},
        ),
        (
            train(5),
            [{**record, "f1": 0.7} for record in dev([0.3, 0.5], metric="mean")],
            {"mean", "F1"},
            set(),
        ),
    ],
)
def test_what_a_learning_curve_shows(
    train: Records, dev: Records, shown: set[str], absent: set[str]
) -> None:
    words = set(texts(learning_curve(train, dev)))
    assert shown <= words
    assert not absent & words


def test_every_stage_has_a_figure_that_names_it() -> None:
    first = stage(train(20, cross_entropy=1), dev([0.3, 0.5, 0.4], best=1))
    second = stage(
        [{**r, "step": r["step"] + 20} for r in train(10, flow=2)],
        dev([0.5, 0.45], start=20),
        number=2,
    )
    first_words, second_words = (texts(svg) for svg in learning_curves([first, second]))
    assert "Stage 1: simcse" in first_words
    assert "Stage 2: simcse" in second_words
    assert "kept: 50.00 at step 10" in first_words
    assert "kept: 50.00 at its start" in second_words
    assert "Stage 1: simcse" not in texts(learning_curve(train(5), []))


def test_panels_state_their_spearman() -> None:
    words = texts(cosines(before=np.full(6, 0.9), after=np.linspace(-0.3, 1, 6)))
    assert {"Before: Spearman 0.00", "After: Spearman 100.00"} <= set(words)


@pytest.mark.parametrize("count", [100, 20_000])
def test_a_figure_stays_small(count: int) -> None:
    random = np.random.default_rng(0)
    curve = learning_curve(train(count), dev([0.3, 0.4]))
    panels = cosines(before=random.uniform(-1, 1, count), after=random.uniform(-1, 1, count))
    assert len(curve) < 100_000
    assert len(panels) < 1_000_000


def test_a_loss_that_diverged_is_drawn() -> None:
    records = train(5)
    records[-1]["loss"] = float("nan")
    assert "training loss" in texts(learning_curve(records, []))

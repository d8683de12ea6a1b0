from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from isotune.report.figures import cosine_against_gold, learning_curve, space_monitor


def train(steps: int, **terms: float) -> list[dict[str, Any]]:
    return [
        {
            "kind": "train",
            "step": i + 1,
            "loss": 1 / (i + 1) + sum(terms.values()),
            "terms": terms or {"info_nce": 1},
        }
        for i in range(steps)
    ]


def dev(scores: list[float]) -> list[dict[str, Any]]:
    return [
        {"kind": "dev", "step": 10 * i, "metric": "spearman", "score": s, "best": True} for i, s in enumerate(scores)
    ]


def texts(svg: str) -> list[str]:
    return [text for text in ElementTree.fromstring(svg).itertext() if text.strip()]


def test_a_learning_curve_marks_the_start_and_the_step_kept() -> None:
    svg = learning_curve(train(20), dev([0.3, 0.5, 0.4]), kept_step=10)
    assert {"dev Spearman x 100", "start: 30.00", "kept: 50.00 at step 10", "training loss", "step"} <= set(texts(svg))


def test_without_dev_scores_the_loss_stands_alone() -> None:
    words = texts(learning_curve(train(20), [], kept_step=20))
    assert "training loss" in words
    assert not any("dev" in word or "kept" in word for word in words)


def test_the_terms_of_a_loss_are_named() -> None:
    assert {"info_nce", "mlm", "sum"} <= set(texts(learning_curve(train(5, info_nce=1, mlm=2), [], kept_step=5)))
    assert "info_nce" not in texts(learning_curve(train(5, info_nce=1), [], kept_step=5))


def test_stages_may_have_different_terms() -> None:
    records = train(5, info_nce=1) + [{**record, "step": record["step"] + 5} for record in train(5, flow=2)]
    assert {"info_nce", "flow", "sum"} <= set(texts(learning_curve(records, [], kept_step=10)))


def test_text_and_axes_take_the_pages_colour() -> None:
    svg = learning_curve(train(20, info_nce=1, mlm=2), dev([0.3, 0.5]), kept_step=10)
    colours = set(re.findall(r"(?:fill|stroke): ?(#\w+|currentColor)", svg))
    assert "currentColor" in colours
    assert colours <= {"currentColor", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000"}
    for style in re.findall(r'<text[^>]*style="([^"]*)"', svg):
        assert "fill: currentColor" in style


def test_a_figure_is_labelled_and_its_ids_are_its_own() -> None:
    figures = [
        learning_curve(train(20), dev([0.3]), kept_step=0),
        space_monitor([{"step": 0, "mean_cosine": 0.8, "effective_rank": 12.3}]),
        *cosine_against_gold(np.arange(5.0), {"before": np.linspace(0.8, 0.9, 5), "after": np.linspace(0, 1, 5)}),
    ]
    ids = [name for svg in figures for name in re.findall(r' id="([^"]+)"', svg)]
    assert len(ids) == len(set(ids))
    for svg in figures:
        root = ElementTree.fromstring(svg)
        assert root.get("role") == "img"
        assert len(root.get("aria-label", "")) > 20
        own = set(re.findall(r' id="([^"]+)"', svg))
        assert set(re.findall(r"url\(#([^)]+)\)", svg)) <= own
        assert set(re.findall(r'href="#([^"]+)"', svg)) <= own


def test_the_same_numbers_give_the_same_description() -> None:
    space = [{"step": s, "mean_cosine": c, "effective_rank": r} for s, c, r in ((0, 0.8, 12.3), (50, 0.2, 80.5))]
    label = ElementTree.fromstring(space_monitor(space)).get("aria-label")
    assert label == (
        "Mean cosine of different sentences: 0.8 at step 0, 0.2 at the end. "
        "Effective rank: 12.3 at step 0, 80.5 at the end."
    )


def test_a_panel_states_its_spearman() -> None:
    gold = np.array([0, 1, 2, 3, 4], np.float32)
    before, after = cosine_against_gold(gold, {"before": np.full(5, 0.9), "after": gold / 5})
    assert "Before: Spearman 0.00" in texts(before)
    assert "After: Spearman 100.00" in texts(after)


def test_panels_have_the_same_axes() -> None:
    gold = np.arange(6.0)
    before, after = cosine_against_gold(gold, {"before": np.linspace(0.9, 1, 6), "after": np.linspace(-0.3, 1, 6)})
    ticks = [[word for word in texts(svg) if re.fullmatch(r"\W?[\d.]+", word)] for svg in (before, after)]
    assert ticks[0] == ticks[1]


@pytest.mark.parametrize("count", [100, 20_000])
def test_a_figure_stays_small(count: int) -> None:
    random = np.random.default_rng(0)
    curve = learning_curve(train(count), dev([0.3, 0.4]), kept_step=0)
    (panel,) = cosine_against_gold(random.uniform(0, 5, count), {"after": random.uniform(-1, 1, count)})
    assert len(curve) < 100_000
    assert len(panel) < 500_000


def test_a_loss_that_diverged_is_drawn() -> None:
    records = train(5)
    records[-1]["loss"] = float("nan")
    assert "Training loss from 1 to nan over 5 steps." in learning_curve(records, [], kept_step=5)

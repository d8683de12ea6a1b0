from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from isotune.evaluation import RunEvaluation
from isotune.evaluation.run_results import CLASSIFIED, TAUGHT, TRAINED_ON, Gain, Verdict
from isotune.report import panels, save_png
from isotune.report.drawing import BLUE, GREEN, VERMILION
from isotune.report.facts import space_words
from isotune.report.figures import (
    FEWEST_POINTS,
    before_and_after,
    draw_gains,
    gains,
    learning_curves,
    on_one_axis,
    space_monitor,
)
from isotune.report.share import DPI, EDGE, share_figure
from isotune.report.stages import StageRecords
from isotune.report.verdict import ADVICE

Records = list[dict[str, Any]]


VERDICTS = [
    Verdict(word="NEW", why="the gain is more than chance"),
    Verdict(word="KEEP", why=CLASSIFIED),
    Verdict(word="CAN'T TELL", why=TRAINED_ON),
    Verdict(word="CAN'T TELL", why=TAUGHT),
]


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
            [{**record, "f1": 0.7} for record in dev([0.3, 0.5, 0.5], metric="mean")],
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
        dev([0.5, 0.45, 0.4], start=20),
        number=2,
    )
    first_words, second_words = (texts(svg) for svg in learning_curves([first, second]))
    assert "Stage 1: simcse" in first_words
    assert "Stage 2: simcse" in second_words
    assert "kept: 50.00 at step 10" in first_words
    assert "kept: 50.00 at its start" in second_words
    assert "Stage 1: simcse" not in texts(learning_curve(train(5), []))


def test_two_points_are_no_curve() -> None:
    short = stage(train(2), dev([0.3, 0.5]), space((0, 0.9, 3.0), (10, 0.2, 9.0)))
    assert learning_curves([short]) == []
    assert space_monitor([short]) == []
    assert space_words([short], FEWEST_POINTS) == [
        "Stage 1: simcse: mean cosine 0.900 → 0.200, effective rank 3.0 → 9.0."
    ]


GAINS = (
    Gain("dev", "mine.tsv", 0.5, 0.6, 0.05, 0.15, chose_step=True),
    Gain("task", "stsb", 0.5, 0.49, -0.03, 0.01),
    Gain("task", "sts16", 0.5, 0.4, -0.12, -0.08),
    Gain("labels", "", 0.5, 0.6),
)


def test_each_difference_has_its_interval_beside_the_start() -> None:
    _, (ax,) = panels([""])
    draw_gains(ax, GAINS)
    bars = [line for line in ax.lines if len(line.get_xdata()) == 2]
    ends = [[round(float(end)) for end in bar.get_xdata()] for bar in bars]
    assert ends == [[5, 15], [-3, 1], [-12, -8]]
    assert [bar.get_color() for bar in bars] == [GREEN, BLUE, VERMILION]
    points = [round(line.get_xdata()[0]) for line in ax.lines if len(line.get_xdata()) == 1]
    assert points == [10, -1, -10, 10]
    (zeros,) = ax.collections
    assert all(path.vertices[0, 0] == 0 for path in zeros.get_paths())
    low, high = ax.get_xlim()
    assert low < -12
    assert high > 15


def test_the_differences_are_described_and_named() -> None:
    words = texts(gains(GAINS))
    for name in ("Dev data mine.tsv, which chose the step: +10.00", "STS-B: -1.00", "the start"):
        assert name in words
    assert "fell from 50.00 to 40.00: -10.00 points, 95 % interval" in gains(GAINS)


def test_tasks_share_one_axis() -> None:
    scores = {"STS-B": (0.4, 0.5), "a <b>": (0.6, 0.3)}
    words = texts(on_one_axis(scores))
    assert {"STS-B", "a <b>", "before", "after"} <= set(words)
    assert on_one_axis({"STS-B": (0.4, 0.5)}) == ""


def test_the_picture_for_sharing_has_the_size_that_is_expected(run: Path) -> None:
    evaluation = RunEvaluation.read(run / "evaluation.json")
    figure = share_figure("模型, trained on a $x$ " + "long " * 40, evaluation)
    path = run / "picture.png"
    save_png(figure, path, DPI)
    with Image.open(path) as picture:
        assert picture.size == (1200, 630)
    words = " ".join(text.get_text() for text in figure.texts)
    assert "Use the new encoder because the gain is more than chance isotune" in words
    assert "The score on STS average rose from 40.86 to 51.29: +10.43 points" in words


@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda verdict: verdict.why)
@pytest.mark.parametrize("name", ["retrieval:faq.jsonl,question,passage", "ẅW" * 200])
def test_the_picture_for_sharing_keeps_its_text_within_its_edges(
    run: Path, verdict: Verdict, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gain = Gain("task", name, 0.8313, 0.8744, 0.0311, 0.0545, " (nDCG@10)", "better")
    monkeypatch.setattr(RunEvaluation, "verdict", verdict)
    monkeypatch.setattr(RunEvaluation, "headline", gain)
    figure = share_figure("W" * 80, RunEvaluation.read(run / "evaluation.json"))
    canvas = FigureCanvasAgg(figure)
    boxes = [text.get_window_extent(canvas.get_renderer()) for text in figure.texts]
    words = " ".join(" ".join(text.get_text() for text in figure.texts).split())
    advice, _, _ = ADVICE[verdict.word].partition(".")
    assert f"{advice} because {verdict.why}" in words
    assert max(box.x1 for box in boxes) <= 1 + (1 - EDGE) * figure.bbox.width
    for box, other in combinations(boxes, 2):
        assert not box.overlaps(other)


def test_panels_state_their_spearman() -> None:
    words = texts(cosines(before=np.full(6, 0.9), after=np.linspace(-0.3, 1, 6)))
    assert {"Before: Spearman 0.00", "After: Spearman 100.00"} <= set(words)


@pytest.mark.parametrize("count", [100, 20_000])
def test_a_figure_stays_small(count: int) -> None:
    random = np.random.default_rng(0)
    curve = learning_curve(train(count), dev([0.3, 0.4]))
    points = cosines(before=random.uniform(-1, 1, count), after=random.uniform(-1, 1, count))
    assert len(curve) < 100_000
    assert len(points) < 1_000_000


def test_a_loss_that_diverged_is_drawn() -> None:
    records = train(5)
    records[-1]["loss"] = float("nan")
    assert "training loss" in texts(learning_curve(records, []))

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr, ttest_rel

from isotune.data import ScoredPairs
from isotune.evaluation import STSTask
from isotune.evaluation.intervals import Floats, interval, resampled_correlations
from isotune.evaluation.results import Aggregation
from isotune.lab.studies import Published, Study
from isotune.lab.studies.comparison import Comparison, PairedTest, compare, holm, paired_test
from isotune.lab.studies.figures import finding
from isotune.lab.studies.findings import findings
from isotune.lab.studies.lines import Line, MadeRun, table_lines
from isotune.lab.studies.page import Results, write_page
from isotune.lab.studies.study import Figure
from tests.report.conftest import Page

STUDY = Study(title="x", scores=("task",), tasks=("task",), arms=())
SEEDS = (0, 1, 2, 3, 4)
WITH_BASE = [("base", f"{name}, size {size}") for name in ("a", "b") for size in (1, 2)]


def task(size: int = 200, parts: int = 2) -> STSTask:
    gold = np.random.default_rng(0).integers(0, 6, size).astype(np.float64)
    subsets = [f"part {i % parts}" for i in range(size)]
    texts = [""] * size
    return STSTask(ScoredPairs("task", "", texts, texts, gold, subsets))


class Encoders:
    """Cosines of encoders that follow the gold scores with more or less noise."""

    def __init__(self, noise: Mapping[str, float], task: STSTask) -> None:
        self.noise, self.gold = noise, task.pairs.scores

    def cosines(self, line: Line, seed: int | None) -> dict[str, Floats]:
        place = list(self.noise).index(line.title)
        drawn = np.random.default_rng([place, 0 if seed is None else seed + 1]).standard_normal(
            len(self.gold)
        )
        return {"task": self.gold + self.noise[line.title] * drawn}

    def lines(self, seeds: Sequence[int | None] = SEEDS) -> list[Line]:
        lines = []
        for name in self.noise:
            line = Line(name, {})
            line.values["task"] = {
                seed: float(spearmanr(self.gold, self.cosines(line, seed)["task"]).statistic)
                for seed in seeds
            }
            lines.append(line)
        return lines


@pytest.fixture(scope="module")
def three() -> tuple[list[Line], list[Comparison]]:
    """The lines of a good encoder and two bad ones, and all comparisons between them."""
    scored = task()
    encoders = Encoders({"good": 1.0, "bad": 4.0, "as bad": 4.0}, scored)
    lines = encoders.lines()
    study = STUDY.model_copy(update={"compare": "all"})
    return lines, list(compare(study, lines, [scored], encoders.cosines))


def test_a_difference_is_tested_over_seeds(three: tuple[list[Line], list[Comparison]]) -> None:
    lines, (worse, _, _) = three
    good, bad, _ = (list(line.values["task"].values()) for line in lines)
    expected = ttest_rel(bad, good)
    assert (worse.first, worse.second, worse.n) == ("bad", "good", 5)
    assert worse.difference == pytest.approx(np.mean(bad) - np.mean(good))
    assert worse.test.p == pytest.approx(expected.pvalue)
    assert (worse.test.low, worse.test.high) == pytest.approx(tuple(expected.confidence_interval()))


def test_the_p_of_several_comparisons_is_corrected(
    three: tuple[list[Line], list[Comparison]],
) -> None:
    _, (worse, _, same) = three
    # It is the least of three p values, or the next.
    assert worse.p == pytest.approx(3 * worse.test.p)
    assert worse.differs
    assert not same.differs


def test_a_difference_is_tested_over_pairs(three: tuple[list[Line], list[Comparison]]) -> None:
    _, (worse, _, same) = three
    assert worse.pairs[0] < worse.difference < worse.pairs[1] < 0
    assert same.pairs[0] < 0 < same.pairs[1]


def test_an_untrained_model_is_compared_with_every_seed() -> None:
    scored = task()
    encoders = Encoders({"as it is": 3.0, "trained": 1.0}, scored)
    lines = [encoders.lines([None])[0], encoders.lines()[1]]
    (comparison,) = compare(STUDY, lines, [scored], encoders.cosines)
    start = lines[0].values["task"][None]
    differences = [value - start for value in lines[1].values["task"].values()]
    assert comparison.n == 5
    assert comparison.test
    assert comparison.difference == pytest.approx(np.mean(differences))
    (both,) = compare(STUDY, encoders.lines([None]), [scored], encoders.cosines)
    assert (both.n, both.test) == (0, None)
    assert both.differs


@pytest.mark.parametrize("aggregation", ["all", "mean", "wmean"])
def test_pairs_are_resampled_as_the_score_is_aggregated(aggregation: Aggregation) -> None:
    scored = task(201)
    encoders = Encoders({"a": 1.0, "b": 2.0}, scored)
    study = STUDY.model_copy(update={"aggregation": aggregation})
    lines = encoders.lines([7])
    resampled = [
        resampled_correlations(scored.pairs, encoders.cosines(line, 7)["task"], aggregation)
        for line in lines
    ]
    (comparison,) = compare(study, lines, [scored], encoders.cosines)
    assert comparison.pairs == pytest.approx(interval(resampled[1] - resampled[0]))
    assert comparison.pairs[0] < comparison.difference < comparison.pairs[1]
    assert (comparison.n, comparison.test, comparison.p) == (1, None, None)


@pytest.mark.parametrize(
    ("compare_to", "arms", "expected"),
    [
        ("first", slice(None), WITH_BASE),
        ("all", slice(None), [*WITH_BASE, ("a, size 1", "b, size 1"), ("a, size 2", "b, size 2")]),
        ("first", slice(1, 3), [("a, size 1", "a, size 2")]),
    ],
)
def test_which_lines_are_compared(
    compare_to: str, arms: slice, expected: list[tuple[str, str]]
) -> None:
    lines = [
        Line("base", {}),
        *(Line(name, {"size": size}) for name in ("a", "b") for size in (1, 2)),
    ][arms]
    for i, line in enumerate(lines):
        line.values["task"] = {0: 0.1 * i, 1: 0.2 * i}
    made = compare(STUDY.model_copy(update={"compare": compare_to}), lines, [], lambda *_: {})
    assert [(comparison.second, comparison.first) for comparison in made] == expected


def grid_study(best: str, **against: str) -> Study:
    """A study of arms of which each may name what it is compared against."""
    arms = [{"name": name, "method": "simcse", "against": other} for name, other in against.items()]
    return Study.model_validate(
        {"title": "x", "scores": ["task"], "tasks": ["task"], "arms": arms, "best": best}
    )


def grid_runs(scores: Mapping[str, Sequence[float]]) -> list[MadeRun]:
    """Two seeds of each arm at the sizes 1, 2, ..., whose means are given."""
    return [
        MadeRun(
            arm=arm,
            model="m",
            seed=seed,
            cell={"size": size},
            run="",
            values={"task": mean + 0.01 * (seed - 0.5)},
        )
        for arm, means in scores.items()
        for size, mean in enumerate(means, 1)
        for seed in (0, 1)
    ]


TASKS = {"rte": "", "sst": "", "tuned rte": "rte", "tuned sst": "sst"}
MEANS = {"rte": (0.5, 0.6), "sst": (0.9, 0.8), "tuned rte": (0.7, 0.4), "tuned sst": (0.91, 0.93)}


def test_an_arm_is_compared_only_with_the_arm_that_it_names() -> None:
    study = grid_study("", **TASKS)
    lines = table_lines(study, grid_runs(MEANS))
    made = [(each.second, each.first) for each in compare(study, lines, [], lambda *_: {})]
    assert made == [
        (f"{task}, size {size}", f"tuned {task}, size {size}")
        for task in ("rte", "sst")
        for size in (1, 2)
    ]
    assert [study.group(arm) for arm in TASKS] == ["rte", "sst", "rte", "sst"]


def test_an_arm_that_kept_its_start_is_marked_and_not_tested() -> None:
    runs = grid_runs({"a": (0.5,), "b": (0.7,), "c": (0.5,)})
    kept = {"a": 10.0, "b": 20.0, "c": 0.0}
    runs = [
        run.model_copy(update={"values": {**run.values, "kept_step": kept[run.arm]}})
        for run in runs
    ]
    study = grid_study("", a="", b="", c="")
    lines = table_lines(study, runs)
    assert [line.kept_start for line in lines] == [False, False, True]
    assert [(each.second, each.first) for each in compare(study, lines, [], lambda *_: {})] == [
        ("a, size 1", "b, size 1")
    ]


def test_the_best_cell_of_each_arm_stands_for_the_arm() -> None:
    study = grid_study("task", **TASKS)
    study = study.model_copy(
        update={"published": (Published(arm="tuned sst", scores={"task": 91.68}),)}
    )
    runs = grid_runs(MEANS)
    runs[0] = runs[0].model_copy(update={"values": {}, "problem": "no data"})
    lines = table_lines(study, runs)
    titles = ["rte, size 2", "sst, size 1", "tuned rte, size 1", "tuned sst, size 2"]
    assert [line.title for line in lines] == titles
    assert [line.printed(study, "task") for line in lines] == ["", "", "", "91.68"]
    assert [line.problems for line in lines] == [["no data"], [], [], []]
    made = compare(study, lines, [], lambda *_: {})
    assert [(each.second, each.first) for each in made] == [
        (titles[0], titles[2]),
        (titles[1], titles[3]),
    ]
    assert [each.difference for each in made] == pytest.approx([0.1, 0.03])


TEST = PairedTest(0.01, 0.03, 0.004)


def page_of(study: Study, comparison: Comparison, folder: Path) -> str:
    nothing: dict[str, Any] = {
        "name": "x",
        "model": "",
        "runs": (),
        "statistics": {},
        "analyses": (),
        "facts": {},
    }
    Results(study=study, comparisons=(comparison,), **nothing).write(folder)
    return Page(write_page(folder)).text


@pytest.mark.parametrize(
    ("comparison", "text"),
    [
        (
            Comparison("A", "B", 0.02, 5, TEST, 0.012, (0.005, 0.035)),
            "A is 2.00 points ahead of B at 5 seeds (95 % interval 1.00 to 3.00, p = 0.012 "
            "corrected); over test pairs, 95 % interval 0.50 to 3.50.",
        ),
        (
            Comparison("B", "A", -0.02, 5, PairedTest(-0.03, -0.01, 1e-5), 1e-5),
            "A is 2.00 points ahead of B at 5 seeds (95 % interval 1.00 to 3.00, p below 0.001).",
        ),
        (
            Comparison("A", "B", 0.02, 0, None, None, (-0.01, 0.04)),
            "No clear difference: A is 2.00 points ahead of B; over test pairs, 95 % interval "
            "-1.00 to 4.00.",
        ),
        (
            Comparison("A", "B", 0.0, 1, None, None, (0.0, 0.0)),
            "No difference: A and B have equal scores at one seed.",
        ),
        (
            Comparison("A", "B", 0.02, 1),
            "A is 2.00 points ahead of B at one seed; a single value can't be tested.",
        ),
    ],
)
def test_the_sentence_of_a_comparison(comparison: Comparison, text: str, tmp_path: Path) -> None:
    assert f"Differences in task {text} The tests in numbers" in page_of(
        STUDY, comparison, tmp_path
    )


def test_sentences_follow_the_scale_and_the_score(tmp_path: Path) -> None:
    comparison = Comparison("A", "B", 0.02, 5, TEST, 0.012)
    thousandths = Study(title="x", scores=("task",), scale=1)
    assert " task A is 0.020 ahead of B" in page_of(thousandths, comparison, tmp_path)
    seconds = Comparison("A", "B", 20.0, 5, PairedTest(10, 30, 0.01), 0.01)
    text = page_of(Study(title="x", scores=("seconds",)), seconds, tmp_path)
    assert "20 ahead of B at 5 seeds (95 % interval 10 to 30" in text


@pytest.mark.parametrize(("value", "p"), [(0.0, 1.0), (0.02, 0.0)])
def test_equal_differences_have_p_1_or_0(value: float, p: float) -> None:
    assert paired_test([value] * 4).p == p


def test_holms_correction_equals_the_one_by_hand() -> None:
    # By hand: 0.01 x 4, 0.02 x 3, 0.03 x 2, 0.5 x 1, none below the one before.
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def untrained_lines() -> list[Line]:
    """Two arms that kept the start, which is a line too, and what all three score."""
    kept = {"task": {0: 0.2144}, "kept_step": {0: 0.0}}
    return [
        Line("as it is", {}, {"task": {None: 0.2144}}),
        Line("SimCSE", {}, kept),
        Line("ConSERT", {}, kept),
    ]


def test_arms_that_kept_the_start_are_told_as_such() -> None:
    lines = untrained_lines()
    found = findings(STUDY, lines, compare(STUDY, lines, [], lambda *_: {}))
    assert found.verdict == "No arm is better than the start."
    assert [sentence.partition(" equals")[0] for sentence in found.untrained] == [
        "SimCSE",
        "ConSERT",
    ]
    assert finding(STUDY, Figure(kind="bars", y="task"), lines) == (
        "task: no arm is better than the start, 21.44"
    )


def test_many_comparisons_are_folded() -> None:
    unclear = [Comparison("A", str(number), 0.02, 1) for number in range(9)]
    clear = Comparison("A", "B", 0.02, 5, TEST, 0.012)
    found = findings(STUDY, [], [*unclear, clear])
    assert found.verdict.startswith("A is 2.00 points ahead of B at 5 seeds")
    assert (len(found.shown), len(found.folded)) == (1, 9)
    found = findings(STUDY, [], [*unclear[:2], clear])
    assert (len(found.shown), len(found.folded)) == (3, 0)


def test_the_comparisons_of_the_best_line_are_shown() -> None:
    names = ["start", "a", "b", "c", "best"]
    lines = [Line(name, {}, {"task": {0: 0.1 * i}}) for i, name in enumerate(names)]
    comparisons = [
        Comparison(second, first, 0.02, 5, TEST, 0.012) for first, second in combinations(names, 2)
    ]
    found = findings(STUDY, lines, comparisons)
    assert len(found.shown) == 4
    assert all("best" in sentence for sentence in found.shown)
    assert len(found.folded) == 6


@pytest.mark.parametrize(
    ("ps", "words"),
    [
        ((0.01, 0.01), ", clearly ahead of all others."),
        ((0.01, 0.9), ", but is not clearly ahead of worse."),
        ((0.9, 0.9), ", but is clearly ahead of no other."),
    ],
)
def test_the_verdict_names_the_best_line(ps: tuple[float, float], words: str) -> None:
    # The first comparison is none of the best line, so it is not the verdict.
    scores = {"plain": 0.1, "worse": 0.2, "best": 0.3}
    lines = [Line(name, {}, {"task": {0: score}}) for name, score in scores.items()]
    comparisons = [
        Comparison("worse", "plain", 0.1, 5, TEST, 0.01),
        Comparison("best", "plain", 0.2, 5, TEST, ps[0]),
        Comparison("worse", "best", -0.1, 5, TEST, ps[1]),
    ]
    verdict = findings(STUDY, lines, comparisons).verdict
    assert verdict == "best has the highest task, 30.00" + words

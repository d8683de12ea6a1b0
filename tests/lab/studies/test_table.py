"""A study's table for papers, from results that are made by hand."""

from isotune.lab.studies import Study
from isotune.lab.studies.comparison import Comparison
from isotune.lab.studies.lines import MadeRun
from isotune.lab.studies.page import Results
from isotune.lab.studies.table import score_table

STUDY = Study.from_table(
    {
        "title": "Three arms",
        "seeds": [0, 1],
        "tasks": ["stsb-open"],
        "scores": ["stsb-open", "kept_step"],
        "arms": [
            {"name": "plain"},
            {"name": "worse", "method": "simcse"},
            {"name": "better", "method": "simcse"},
        ],
        "published": [
            {"arm": "better", "scores": {"stsb-open": 70.5}, "deviation": {"stsb-open": 0.25}},
            {"arm": "of another paper", "scores": {"stsb-open": 80}},
        ],
    }
)
VALUES = {
    "plain": {None: (0.5, 0)},
    "worse": {0: (0.4, 1100), 1: (0.42, 1300)},
    "better": {0: (0.7, 10), 1: (0.72, 20)},
}


def results() -> Results:
    made = []
    for arm, by_seed in VALUES.items():
        for seed, (score, step) in by_seed.items():
            values = {"stsb-open": score, "kept_step": step}
            run = MadeRun(arm=arm, model="m", seed=seed, cell={}, run="key", values=values)
            made.append(run)
    differences = {("worse", "plain"): -0.09, ("better", "plain"): 0.21, ("better", "worse"): 0.3}
    comparisons = []
    for (first, second), difference in differences.items():
        # The last difference is told by no test.
        p = 0.2 if second == "worse" else 0.01
        comparisons.append(Comparison(first, second, difference, n=2, p=p))
    return Results(
        name="three",
        study=STUDY,
        model="",
        runs=tuple(made),
        statistics={},
        comparisons=tuple(comparisons),
        analyses=(),
        facts={},
    )


def test_a_row_has_mean_deviation_and_what_it_beats_and_published_numbers_a_row() -> None:
    table = score_table(results())
    lines = table.text("markdown").splitlines()[4:9]
    assert lines == [
        "| a | plain | 50.00<sup>b</sup> | 0 |",
        "| b | worse | 41.00 ± 1.41 | 1,200 ± 141 |",
        "| c | better | **71.00**<sup>a</sup> ± 1.41 | 15 ± 7.07 |",
        "| d | better, published | 70.50 ± 0.25 |  |",
        "| e | of another paper, published | 80.00 |  |",
    ]
    assert table.text("latex") == score_table(results()).text("latex")
    assert "\nc,better,71.00,1.41,a,15,7.07\n" in table.text("csv")

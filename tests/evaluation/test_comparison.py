"""Comparisons of encoders: differences, intervals, ties and ranks."""

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isotune.errors import InputError
from isotune.evaluation import (
    Comparison,
    RunEvaluation,
    TransferTask,
    compare,
    difference_table,
    evaluate,
)
from isotune.evaluation.classifiers import Logistic
from isotune.evaluation.comparison import compare_resampled, resampled_scores
from isotune.evaluation.results import Cost
from isotune.evaluation.run_results import (
    DEV_GAINS_NOTHING,
    LIKE_TEACHERS,
    NOT_TAUGHT,
    TAUGHT,
    TRAINED_ON,
    WORDS,
    WORSE,
    Agreement,
    BesideTeachers,
    DevGain,
    Nearness,
)


class Noisy:
    """Counts of words, with noise that is always the same for a sentence."""

    def __init__(self, noise: float = 0) -> None:
        self.noise = noise

    def encode(self, sentences: Sequence[str], /) -> NDArray[np.float64]:
        vectors = np.zeros((len(sentences), 256))
        for row, sentence in zip(vectors, sentences, strict=True):
            for word in sentence.lower().split():
                row[zlib.crc32(word.encode()) % 256] += 1
            row += self.noise * np.random.default_rng(
                zlib.crc32(sentence.encode())
            ).standard_normal(256)
        return vectors


@pytest.fixture(scope="module")
def compared() -> Comparison:
    encoders = {"words": Noisy(0), "loud": Noisy(1.0), "faint": Noisy(0.001)}
    return compare(encoders, ["stsb-open", "geometry:stsb-open:dev"])


def test_differences_are_those_of_the_scores_and_what_the_pairs_cannot_tell_apart_is_tied(
    compared: Comparison,
) -> None:
    scores = {each.encoder: each.scores()["stsb-open"] for each in compared.evaluations}
    assert scores == {
        name: evaluate(Noisy(x), "stsb-open").scores()["stsb-open"]
        for name, x in {"words": 0, "loud": 1.0, "faint": 0.001}.items()
    }
    assert [(each.encoder, each.against) for each in compared.differences] == [
        ("loud", "words"),
        ("faint", "words"),
        ("faint", "loud"),
    ]
    for each in compared.differences:
        assert each.score == "stsb-open"
        assert each.difference == scores[each.encoder] - scores[each.against]
        assert each.low <= each.difference <= each.high
    assert [each.tied for each in compared.differences] == [False, True, False]
    assert compared.ranks("stsb-open") == {"words": 1, "loud": 3, "faint": 1}


def test_a_comparison_prints_as_a_table(compared: Comparison) -> None:
    lines = str(compared).splitlines()
    scores = [each.scores() for each in compared.evaluations]
    (control,) = compared.evaluations[0].controls
    scores.append(control.scores())
    assert lines[0].split() == ["words", "loud", "faint", "common", "words"]
    assert lines[1].split() == [
        "stsb-open",
        *(f"{100 * table['stsb-open']:.2f}" for table in scores),
    ]
    assert lines[2].split()[0] == "geometry:stsb-open:dev-alignment"
    assert lines[2].split()[1] == f"{scores[0]['geometry:stsb-open:dev-alignment']:.4f}"
    heading = lines.index("loud against words, with the 95 % interval of the difference")
    first = compared.differences[0]
    assert lines[heading + 1] == f"stsb-open  {100 * first.difference:+.2f} ({first.words})"
    assert len({len(line) for line in lines[:6]}) == 1
    assert len(str(compared)) < 1100
    assert str(compared.evaluations[0]).splitlines()[1].split()[0] == "stsb-open"


def test_the_table_of_differences_has_no_row_for_the_first_encoder(compared: Comparison) -> None:
    table = difference_table(compared)
    names, *_, ranks = table.columns
    assert list(map(str, names.cells)) == ["loud", "faint"]
    assert list(map(str, ranks.cells)) == ["3", "1"]
    assert str(table.caption) == "Rank of words: 1 on STS-B open"


def test_a_comparison_prints_the_correlation_that_was_asked_for() -> None:
    encoders = {"words": Noisy(0), "loud": Noisy(1.0)}
    comparison = compare(encoders, "stsb-open", metric="pearson")
    assert Comparison.model_validate_json(comparison.model_dump_json()) == comparison
    pearson = 100 * comparison.evaluations[0].scores(metric="pearson")["stsb-open"]
    assert f"{pearson:.2f}" in str(comparison)


def test_accuracies_are_compared_over_rows() -> None:
    generator = np.random.default_rng(0)
    texts = [" ".join(generator.choice(list("abcdefgh"), 6)) for _ in range(300)]
    targets = np.array([int("a" in text) for text in texts])
    task = TransferTask("has a", Logistic(), {"train": ([texts], targets)})
    comparison = compare_resampled(resampled_scores([task], Noisy(x), f"{x}") for x in (0, 3.0))
    (difference,) = comparison.differences
    assert difference.difference < difference.high < 0
    assert comparison.ranks("has a") == {"0": 1, "3.0": 2}


@pytest.mark.parametrize(
    "aggregation", ["all", pytest.param("mean", marks=pytest.mark.slow), "wmean"]
)
def test_every_aggregation_is_that_of_the_score(aggregation: str, real_data: object) -> None:
    comparison = compare(
        {"words": Noisy(0), "loud": Noisy(1.0)}, ["sts12", "sts"], aggregation=aggregation
    )
    by_score = {each.score: each for each in comparison.differences}
    assert {"sts12", "sts"} <= by_score.keys()
    first, second = (each.scores(aggregation) for each in comparison.evaluations)
    for name, each in by_score.items():
        assert each.difference == second[name] - first[name]
        assert each.low < each.difference < each.high < 0
    average, members = by_score["sts"], [by_score[name] for name in by_score if name != "sts"]
    assert average.high - average.low < min(each.high - each.low for each in members)


SURE, UNSURE, LOSS = (0.002, 0.03), (-0.01, 0.03), (-0.03, -0.01)
COST = Cost(weights=1000, sentences_per_second=2.0)
CHANCE = "the change may be chance"


@pytest.mark.parametrize(
    ("changes", "word", "why"),
    [
        ({}, "CAN'T TELL", "nobody has scored pairs of this text"),
        (
            {"ends": SURE},
            "CAN'T TELL",
            "nobody has scored pairs of this text",
        ),  # general pairs don't speak for it
        ({"ends": SURE, "own": True}, "NEW", "the gain is more than chance"),
        ({"ends": UNSURE, "own": True}, "CAN'T TELL", CHANCE),
        ({"ends": LOSS}, "KEEP", "it is worse by more than chance on stsb-open"),
        ({"ends": LOSS, "dev": SURE}, "KEEP", "it is worse by more than chance on stsb-open"),
        ({"ends": UNSURE, "dev": SURE}, "NEW", "the gain is more than chance"),
        ({"ends": UNSURE, "dev": UNSURE}, "CAN'T TELL", "the change may be chance"),
        (
            {"ends": SURE, "dev": SURE, "general": True},
            "CAN'T TELL",
            "nobody has scored pairs of this text",
        ),
        ({"ends": SURE, "own": True, "dev": UNSURE}, "NEW", "the gain is more than chance"),
        ({"ends": SURE, "own": True, "dev": (-0.03, 0.03)}, "KEEP", "the dev data gain nothing"),
        ({"ends": SURE, "own": True, "step": 0}, "KEEP", "no step was better"),
        ({"ends": SURE, "dev": SURE, "trained": True}, "CAN'T TELL", TRAINED_ON),
        (
            {"ends": LOSS, "dev": SURE, "trained": True},
            "KEEP",
            "it is worse by more than chance on stsb-open",
        ),
        # The teachers may be wrong, so agreement with them says nothing else.
        ({"taught": SURE}, "CAN'T TELL", TAUGHT),
        ({"taught": SURE, "ends": LOSS}, "CAN'T TELL", TAUGHT),
        ({"taught": SURE, "ends": SURE}, "CAN'T TELL", TAUGHT),
        # Nobody would use a language model, the start of a student, in place of the student.
        ({"taught": SURE, "student": True}, "NEW", LIKE_TEACHERS),
        ({"taught": SURE, "ends": UNSURE, "own": True, "student": True}, "CAN'T TELL", CHANCE),
        ({"taught": UNSURE, "student": True}, "KEEP", NOT_TAUGHT),
        ({"taught": SURE, "step": 0, "student": True}, "KEEP", "no step was better"),
        ({"taught": UNSURE}, "KEEP", "it agrees no more with its teachers than the start"),
        (
            {"taught": UNSURE, "ends": SURE, "own": True},
            "KEEP",
            "it agrees no more with its teachers than the start",
        ),
        (
            {"taught": SURE, "ends": LOSS, "own": True},
            "KEEP",
            "it is worse by more than chance on stsb-open",
        ),
        ({"taught": SURE, "ends": SURE, "own": True}, "NEW", "the gain is more than chance"),
        ({"taught": SURE, "dev": SURE}, "NEW", "the gain is more than chance"),
        ({"taught": SURE, "step": 0}, "KEEP", "no step was better"),
        ({"labels": (0.5, 0.7), "ends": LOSS}, "NEW", "the labelled dev rows are predicted better"),
        (
            {"labels": (0.5, 0.7), "ends": LOSS, "own": True},
            "KEEP",
            "it is worse by more than chance on stsb-open",
        ),
        (
            {"labels": (0.5, 0.5), "step": 0},
            "KEEP",
            "the labelled dev rows are predicted no better",
        ),
    ],
)
def test_one_judge_decides(
    compared: Comparison, changes: dict[str, Any], word: str, why: str
) -> None:
    low, high = changes.get("ends", (-0.01, 0.01))
    difference = compared.differences[0].model_copy(
        update={"difference": (low + high) / 2, "low": low, "high": high}
    )
    start, kept, teacher = compared.evaluations
    kept = kept.model_copy(update={"controls": ()})
    dev = None
    if "dev" in changes:
        ends = dict(zip(("low", "high"), changes["dev"], strict=True))
        after = 0.5 + sum(changes["dev"]) / 2
        dev = DevGain(name="mine", unit="pairs", rows=50, before=0.5, after=after, **ends)
    agreement = None
    beside = None
    had = "the start"
    if "student" in changes:
        beside = BesideTeachers(
            names=("/models/large",), evaluation=teacher, differences=(compared.differences[2],)
        )
        had = "the teacher large"
    if "taught" in changes:
        ends = dict(zip(("low", "high"), changes["taught"], strict=True))
        agreement = Agreement(
            sentences=40, pairs=300, before=0.5, after=0.51, teachers=COST, student=COST, **ends
        )
    run = RunEvaluation(
        before=start,
        after=kept,
        selected_step=changes.get("step", 20),
        differences=(difference,) if "ends" in changes else (),
        dev=dev,
        dev_is_general="general" in changes,
        own_tasks=("stsb-open",) if changes.get("own") else (),
        labels=changes.get("labels"),
        agreement=agreement,
        general_losses_count=agreement is None,
        trained_on=("mine",) if "trained" in changes else (),
        beside_teachers=beside,
        start_is_encoder=beside is None,
    )
    assert (run.verdict.word, run.verdict.why) == (word, why)
    assert RunEvaluation.model_validate_json(run.model_dump_json()) == run
    verdict = {"word": word, "why": why, "had": had, "but": ""}
    assert json.loads(run.model_dump_json())["verdict"] == verdict
    assert run.decision.startswith(f"{WORDS[word].format(had=had)}: {why}")
    assert ("start untrained" in run.decision) == (
        "labels" in changes and "own" not in changes and "step" not in changes
    )
    if run.selected_step and "ends" in changes:
        both = [100 * encoder.scores()["stsb-open"] for encoder in (start, kept)]
        assert run.decision.endswith(
            f"stsb-open {both[0]:.2f} -> {both[1]:.2f} (95 % interval {difference.words})"
        )
    rests_on = {f"{WORSE} stsb-open": "task", DEV_GAINS_NOTHING: "dev", NOT_TAUGHT: "agreement"}
    if why in rests_on:
        assert run.headline
        assert run.headline.kind == rests_on[why]


def beaten_run(compared: Comparison, step: int = 20, **changes: Any) -> RunEvaluation:
    """A run whose kept encoder is "loud", by its task better than the start; "words" taught it."""
    teacher, kept, start = compared.evaluations
    low, high = SURE
    gain = compared.differences[0].model_copy(update={"low": low, "high": high, "difference": 0.01})
    beside = BesideTeachers(
        names=("one/teacher",), evaluation=teacher, differences=(compared.differences[0],)
    )
    given: dict[str, Any] = {"own_tasks": ("stsb-open",), "beside_teachers": beside, **changes}
    return RunEvaluation(before=start, after=kept, selected_step=step, differences=(gain,), **given)


def test_a_student_stands_beside_its_teachers(compared: Comparison) -> None:
    run = beaten_run(compared)
    (near,) = run.nearness
    scores = [100 * each.scores()["stsb-open"] for each in compared.evaluations]
    difference = compared.differences[0]
    assert (100 * near.student, 100 * near.teachers) == (scores[1], scores[0])
    assert near.difference == difference
    ends = f"{100 * difference.low:+.2f} to {100 * difference.high:+.2f}"
    assert (
        f"beside the teacher one/teacher: stsb-open {scores[1]:.2f} of {scores[0]:.2f}, "
        f"{100 * scores[1] / scores[0]:.0f} % (student minus teacher, 95 % interval {ends})"
    ) in run.decision
    slow, fast = (Cost(weights=10, sentences_per_second=speed) for speed in (2.0, 15.0))
    agreement = Agreement(
        sentences=40, pairs=9, before=0.1, after=0.4, low=0.2, high=0.4, teachers=slow, student=fast
    )
    assert "7.5 times as fast" in beaten_run(compared, agreement=agreement).decision
    assert "beside" not in beaten_run(compared, beside_teachers=None).decision


@pytest.mark.parametrize(
    ("teachers", "share"), [(0.5, "60 %"), (0.1, "300 %"), (0.09, ""), (0.0, ""), (-0.4, "")]
)
def test_a_share_is_told_only_of_a_score_that_is_clearly_above_0(
    compared: Comparison, teachers: float, share: str
) -> None:
    near = Nearness("task", "", 0.3, teachers, compared.differences[0])
    assert near.share == share
    both = f"30.00 of {100 * teachers:.2f}"
    told = ", ".join(filter(None, [both, share]))
    assert near.words("task").startswith(f"task {told} (student minus teacher")
    assert near.part("task") == f"{share or both} on task"


def test_an_encoder_that_words_alone_beat_is_new_with_a_but(compared: Comparison) -> None:
    """Where the start is worse still, a gain alone would hide that the encoder is of no use."""
    kept = compared.evaluations[1]
    (control,) = kept.controls
    words = 100 * control.scores()["stsb-open"]
    own = 100 * kept.scores()["stsb-open"]
    teacher = 100 * compared.evaluations[0].scores()["stsb-open"]
    verdict = beaten_run(compared).verdict
    below = f"stsb-open is {own:.2f}, below common words ({words:.2f})"
    assert verdict.but == f"{below} and the teacher one/teacher ({teacher:.2f}): use the teacher"
    assert str(verdict) == f"NEW: the gain is more than chance, but {verdict.but}"
    assert beaten_run(compared, beside_teachers=None).verdict.but == below
    # Only tasks that judge count, and only an encoder that is advised has a but.
    assert not beaten_run(compared, own_tasks=()).verdict.but
    assert not beaten_run(compared, step=0).verdict.but
    beats = control.differences[0].model_copy(update={"low": -0.01, "high": 0.02})
    tied = control.model_copy(update={"differences": (beats,)})
    unbeaten = kept.model_copy(update={"controls": (tied,)})
    assert not beaten_run(compared).model_copy(update={"after": unbeaten}).verdict.but


@pytest.mark.parametrize("wrong", ["bert-tiny", Path("bert-tiny"), None, [Noisy(0), Noisy(1)]])
def test_encoders_without_a_name_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"a list of at least two encoders|give each one"):
        compare(wrong)

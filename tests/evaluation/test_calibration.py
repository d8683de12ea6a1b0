"""Calibration: the curve against closed forms and simulations, and what binds it to its encoder."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import isotune
from isotune.data import ScoredPair
from isotune.encoder.calibration import CALIBRATION, Calibration
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.evaluation.calibration import DEVIATIONS, fit
from isotune.files import CHECKSUMS, verify_checksums, write_text


@pytest.fixture
def encoder(tiny_model: Path, tmp_path: Path) -> Encoder:
    """An encoder that was saved in the folder "encoder"."""
    Encoder.load(tiny_model).save(tmp_path / "encoder")
    return Encoder.load(tmp_path / "encoder")


def test_the_curve_goes_through_the_shares_at_two_cosines() -> None:
    cosines, same = np.repeat([0.2, 0.8], 40), np.repeat([0.1, 0.7], 40)
    found = fit(cosines, same)
    positives = 40 * 0.8
    lowest, highest = (
        1 / (80 - positives + 2),
        (positives + 1) / (positives + 2),
    )  # Platt's targets for 0 and 1
    low, high = (lowest + share * (highest - lowest) for share in (0.1, 0.7))
    logits = [math.log(p / (1 - p)) for p in (low, high)]
    slope = (logits[1] - logits[0]) / 0.6
    threshold = 0.2 - logits[0] / slope
    # Of two groups, the variance of a logit is 1 / (n p (1 - p)); the threshold lies between both
    # cosines by weights.
    weights = (0.8 - threshold) / 0.6 / slope, (threshold - 0.2) / 0.6 / slope
    variance = sum(w**2 / (40 * p * (1 - p)) for w, p in zip(weights, (low, high), strict=True))
    assert found == pytest.approx((slope, threshold, math.sqrt(variance)), rel=1e-4)


def test_the_interval_holds_the_true_threshold_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    held = 0
    for _ in range(300):
        cosines = generator.uniform(0.2, 1.0, 100)
        same = generator.random(100) < 1 / (1 + np.exp(-12 * (cosines - 0.65)))
        _, threshold, deviation = fit(cosines, same.astype(float))
        held += abs(threshold - 0.65) < DEVIATIONS * deviation
    assert 0.92 < held / 300 < 0.98


@pytest.mark.parametrize(("few", "widest"), [(2, 2.0), (6, 0.5)])
def test_pairs_that_a_cosine_separates_give_a_finite_curve(few: int, widest: float) -> None:
    cosines = np.linspace(0.1, 0.9, few)
    slope, threshold, deviation = fit(cosines, (cosines > 0.5).astype(float))
    assert threshold == pytest.approx(0.5)
    assert 1 < slope < 20
    assert 0.05 < deviation < widest


def test_a_probability_is_the_curves_and_a_limit_its_inverse() -> None:
    made = Calibration(slope=10, threshold=0.7, low=0.6, high=0.8, pairs=9, fingerprint="")
    assert made.probability([[0.7, 0.8]]).tolist() == [[0.5, pytest.approx(1 / (1 + math.exp(-1)))]]
    assert made.probability(made.cosine(0.9)) == pytest.approx(0.9)
    with pytest.raises(
        InputError, match=r"probability 0.99: this encoder's curve gives 0.9526 at most; give less"
    ):
        made.cosine(0.99)
    for wrong in (0, 1, math.nan):
        with pytest.raises(InputError, match="a number above 0 and below 1 is needed"):
            made.cosine(wrong)


def test_a_calibration_has_an_interval_and_the_number_of_pairs(
    encoder: Encoder, pairs: Path
) -> None:
    made = isotune.calibrate(encoder, pairs)
    assert made.low < made.threshold < made.high
    assert made.pairs == 30


def test_a_calibration_stays_with_its_encoder_alone(
    encoder: Encoder, pairs: Path, tmp_path: Path
) -> None:
    made = isotune.calibrate(tmp_path / "encoder", str(pairs))
    assert encoder.calibration is None
    encoder.calibration = made
    encoder.save(tmp_path / "saved")
    assert Encoder.load(tmp_path / "saved", precision="bfloat16").calibration == made
    assert Encoder.load(tmp_path / "saved", pooling="cls").calibration is None


def test_an_encoder_that_is_trained_further_has_no_calibration(
    encoder: Encoder, pairs: Path, tmp_path: Path
) -> None:
    encoder.calibration = isotune.calibrate(encoder, pairs)
    assert encoder.calibration is not None
    next(encoder.parameters()).data.mul_(2)
    assert encoder.calibration is None
    encoder.save(tmp_path / "trained")
    assert not (tmp_path / "trained" / CALIBRATION).exists()


def test_scores_of_every_scale_are_shares(encoder: Encoder, pairs: Path) -> None:
    rows = [
        ScoredPair(*line.split("\t")[:2], float(line[-1]))
        for line in pairs.read_text().splitlines()[1:]
    ]  # type: ignore[arg-type]
    graded = isotune.calibrate(encoder, rows)
    assert graded == isotune.calibrate(encoder, pairs)
    for scale in (1, 5, 100):
        scaled = [row._replace(score=row.score / 5 * scale) for row in rows]
        assert isotune.calibrate(encoder, scaled, scale=scale).threshold == pytest.approx(
            graded.threshold
        )
    judged = [row._replace(score=float(row.score > 2)) for row in rows]
    assert isotune.calibrate(encoder, judged, scale=1) != isotune.calibrate(
        encoder, judged, scale=5
    )
    with pytest.raises(
        InputError, match="no score is above 1, so their scale is not known; give scale 1"
    ):
        isotune.calibrate(encoder, judged)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (
            [2, 2, 2],
            "the pairs: all 3 pairs have one score; give pairs that mean the same and others",
        ),
        ([2], "the pairs: all 1 pairs have one score"),
        ([], "nothing in it"),
        ([0, math.nan, 1], "<rows>:2: score must be a finite number, not nan"),
        ([0, 3, 7], "the pairs: a score of 7; give scores from 0 to 5, or another scale"),
        ([-1, 0, 2], "the pairs: a score of -1;"),
        (
            [0, 0, 2],
            "the pairs: pairs with a higher cosine don't have higher scores; calibrate by other "
            "pairs",
        ),
    ],
)
def test_pairs_that_say_nothing_are_refused(
    encoder: Encoder, scores: list[float], message: str
) -> None:
    texts = [
        ("a dog", "a dog"),
        ("a cat", "a cat"),
        ("a dog", "the man sees a red house with a ball"),
    ]
    rows = [ScoredPair(*both, score) for both, score in zip(texts, scores, strict=False)]
    with pytest.raises(InputError, match=re.escape(message)):
        isotune.calibrate(encoder, rows)


@pytest.mark.parametrize("few", [2, 19])
def test_few_pairs_are_refused(encoder: Encoder, pairs: Path, few: int) -> None:
    lines = [line.split("\t") for line in pairs.read_text().splitlines()[1:]]
    rows = [ScoredPair(first, second, float(score)) for first, second, score in lines]
    rows = [row for row in rows if row.sentence1 != row.sentence2]
    rows.sort(key=lambda row: row.score)
    spread = rows[: few // 2] + rows[-(few - few // 2) :]
    # Copies make no more pairs of them.
    copies = [row._replace(sentence1=row.sentence1.upper()) for row in spread] * 20
    message = f"the pairs: {few} different pairs, and 20 are needed to calibrate; score more"
    with pytest.raises(InputError, match=message):
        isotune.calibrate(encoder, spread + copies)


def test_pairs_of_one_cosine_are_refused(encoder: Encoder) -> None:
    with pytest.raises(InputError, match="all 2 pairs have one cosine"):
        isotune.calibrate(
            encoder, [ScoredPair("a dog", "a cat", 0), ScoredPair("a dog", "a cat", 5)]
        )


@pytest.mark.parametrize("damage", ['{"slope": 1', "[]", '"threshold": NaN', '"slope": -2.0'])
def test_a_damaged_file_is_refused(
    encoder: Encoder, pairs: Path, tmp_path: Path, damage: str
) -> None:
    folder = tmp_path / "encoder"
    for _ in range(2):  # the second replaces the first
        isotune.calibrate(encoder, pairs).save(folder)
    assert Encoder.load(folder).calibration
    assert (folder / "SHA256SUMS").read_text().count(CALIBRATION) == 1
    text = (folder / CALIBRATION).read_text()
    key = damage.partition(":")[0]
    changed = "\n".join(f"  {damage}," if key in line else line for line in text.splitlines())
    (folder / CALIBRATION).write_text(changed if key.startswith('"') else damage)
    with pytest.raises(InputError, match=f"{CALIBRATION} is damaged"):
        Encoder.load(folder)
    (folder / "SHA256SUMS").unlink()
    assert Encoder.load(folder).calibration is None  # another program's file of this name, perhaps


def test_two_that_calibrate_one_folder_at_once_leave_it_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Calibration(slope=10, threshold=0.7, low=0.6, high=0.8, pairs=9, fingerprint="")
    other = made.model_copy(update={"slope": 1.0})

    def write_late(path: Path, text: str) -> None:
        if CALIBRATION in text:
            monkeypatch.undo()
            other.save(tmp_path)
        write_text(path, text)

    monkeypatch.setattr("isotune.encoder.calibration.write_text", write_late)
    (tmp_path / CHECKSUMS).touch()
    made.save(tmp_path)
    assert verify_checksums(tmp_path)
    assert Calibration.model_validate_json((tmp_path / CALIBRATION).read_bytes()) == other

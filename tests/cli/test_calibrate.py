"""`isotune evaluate --calibrate`, and the commands that give probabilities afterwards."""

import json
import re
from pathlib import Path

import pytest

from isotune.encoder.encoder import Encoder
from tests.cli.conftest import Call, Refused


@pytest.fixture
def encoder(tiny_model: Path) -> Path:
    """The folder of an encoder that is not calibrated."""
    Encoder.load(tiny_model).save("encoder")
    return Path("encoder")


def test_from_scored_pairs_to_probabilities(
    isotune: Call, encoder: Path, pairs: Path, text: Path
) -> None:
    code, out, _ = isotune("evaluate", encoder, "--tasks", pairs, "--calibrate")
    calibration = Encoder.load(encoder).calibration
    assert code == 0
    again = json.loads(isotune("evaluate", encoder, "--tasks", pairs, "--calibrate", "--json").out)
    assert again["calibrations"] == {"encoder": calibration.model_dump()}
    assert out.splitlines()[-1] == (
        "encoder: two sentences mean the same with probability 0.5 at the cosine "
        f"{calibration.threshold:.4f} "
        f"(95 % interval {calibration.low:.4f} to {calibration.high:.4f}, 30 pairs of {pairs}); "
        f"the highest probability, at the cosine 1, is {calibration.probability(1.0):.4f}"
    )

    isotune("index", encoder, text)
    chances = probabilities(isotune("search", "index", "the man sees a cat", "-k", 50).out)
    assert chances == sorted(chances, reverse=True)
    limit = (chances[9] + chances[10]) / 2
    code, out, err = isotune(
        "search", "index", "the man sees a cat", "-k", 50, "--probability", limit
    )
    likely = [chance for chance in chances if chance > limit]
    assert probabilities(out) == likely
    assert err == f"{len(likely)} of 50: no other row has --probability {limit:g}\n"


def probabilities(out: str) -> list[float]:
    """Those of the hits of a search, behind rank and cosine."""
    return [float(found) for found in re.findall(r"^ *\d+ +[\d.]+ +([\d.]+) ", out, re.MULTILINE)]


def test_an_encoder_without_calibration_gives_no_probability(
    isotune: Call, refused: Refused, encoder: Path, text: Path
) -> None:
    isotune("index", encoder, text)
    message = refused("search", "index", "a dog", "--probability", 0.9)
    assert message.endswith("isotune evaluate ENCODER --tasks FILE --calibrate")


CALIBRATE = "evaluate ENCODER --calibrate"
ONE_FILE = "--calibrate: name one file or dataset of scored pairs"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (CALIBRATE, ONE_FILE),
        (f"{CALIBRATE} --tasks PAIRS stsb-open", ONE_FILE),
        ("evaluate MODEL --calibrate --tasks PAIRS", "MODEL is no folder of an encoder"),
        (f"{CALIBRATE} --tasks geometry:stsb-open", "is no file or dataset of scored pairs"),
        (f"{CALIBRATE} --tasks geometry:PAIRS", "is no file or dataset of scored pairs"),
        (f"{CALIBRATE} --tasks transfer", ""),
        ("evaluate ENCODER --scale 5", "--scale is for --calibrate"),
    ],
)
def test_what_calibrate_refuses(
    refused: Refused, encoder: Path, tiny_model: Path, pairs: Path, words: str, message: str
) -> None:
    paths = {"ENCODER": encoder, "MODEL": tiny_model, "PAIRS": pairs}
    for name, path in paths.items():
        words = words.replace(name, str(path))
        message = message.replace(name, str(path))
    assert message in refused(*words.split())
    assert not (encoder / "calibration.json").exists()


def test_a_score_beyond_the_scale_loses_no_measured_score(isotune: Call, encoder: Path) -> None:
    Path("high.tsv").write_text("sentence1\tsentence2\tscore\na dog\ta cat\t0\na dog\ta dog\t100\n")
    code, table, error = isotune("evaluate", encoder, "--calibrate", "--tasks", "high.tsv")
    assert code == 2
    assert "high.tsv" in table
    assert "a score of 100; give scores from 0 to 5, or another scale" in error
    assert not (encoder / "calibration.json").exists()

"""`isotune evaluate --calibrate`, and the commands that give probabilities afterwards."""

import json
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
    lines = isotune("search", "index", "the man sees a cat", "-k", 50).out.splitlines()[::2]
    chances = [float(line.split()[1]) for line in lines]
    assert chances == sorted(chances, reverse=True)
    limit = (chances[9] + chances[10]) / 2
    code, out, err = isotune(
        "search", "index", "the man sees a cat", "-k", 50, "--probability", limit
    )
    assert out.splitlines()[::2] == lines[: sum(chance > limit for chance in chances)]
    assert err == f"{len(out.splitlines()) // 2} of 50: no other row has --probability {limit:g}\n"


def test_an_encoder_without_calibration_gives_no_probability(
    isotune: Call, refused: Refused, encoder: Path, text: Path
) -> None:
    isotune("index", encoder, text)
    message = refused("search", "index", "a dog", "--probability", 0.9)
    assert message.endswith("isotune evaluate ENCODER --tasks FILE --calibrate")


def test_what_calibrate_refuses(
    isotune: Call, refused: Refused, encoder: Path, tiny_model: Path, pairs: Path
) -> None:
    words = ["evaluate", encoder, "--calibrate"]
    assert "--calibrate: name one file or dataset of scored pairs" in refused(*words)
    assert "--calibrate: name one file or dataset" in refused(*words, "--tasks", pairs, "stsb-open")
    plain = refused("evaluate", tiny_model, "--calibrate", "--tasks", pairs)
    assert f"--calibrate: {tiny_model} is no folder of an encoder" in plain
    for task in ("geometry:stsb-open", "transfer"):
        refused(*words, "--tasks", task)
    assert "is no file or dataset of scored pairs" in refused(
        *words, "--tasks", f"geometry:{pairs}"
    )
    Path("high.tsv").write_text("sentence1\tsentence2\tscore\na dog\ta cat\t0\na dog\ta dog\t100\n")
    code, table, error = isotune(*words, "--tasks", "high.tsv")
    assert code == 2
    assert "high.tsv" in table  # what was measured is not lost
    assert "a score of 100; give scores from 0 to 5, or another scale" in error
    assert "--scale is for --calibrate" in refused("evaluate", encoder, "--scale", 5)
    assert not (encoder / "calibration.json").exists()

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from isotune.data import Pair, read, read_scored_pairs
from isotune.errors import InputError
from isotune.evaluation import geometry, load_tasks, source_of
from isotune.evaluation.geometry import alignment
from isotune.evaluation.results import GeometryResult
from tests.reference import geometry as reference

OF_A_SPACE = ("uniformity", "mean_cosine", "effective_rank")


def space(rows: int, features: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Vectors of many lengths around a common direction."""
    generator = torch.Generator().manual_seed(rows)
    spread = torch.randn(rows, features, generator=generator, dtype=torch.float64)
    lengths = torch.rand(rows, 1, generator=generator, dtype=torch.float64) * 20 + 0.1
    return ((spread + 1.5) * lengths).to(dtype)


@pytest.mark.parametrize("shape", [(15, 4), (6, 9)])
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
@pytest.mark.parametrize("block", [geometry.ROWS, 4])
@pytest.mark.parametrize("measure", OF_A_SPACE)
def test_the_measures_are_the_slow_references(
    measure: str,
    block: int,
    dtype: torch.dtype,
    close: float,
    shape: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(geometry, "ROWS", block)
    vectors = space(*shape)
    expected = getattr(reference, measure)(list(vectors))
    # The singular values beyond N - 1 are 0 but for rounding; their square roots are larger.
    assert getattr(geometry, measure)(vectors.to(dtype)) == pytest.approx(
        expected, rel=max(close, 1e-6)
    )


def test_alignment_is_the_slow_reference() -> None:
    first, second = space(10, 4), space(11, 4)[:10]
    assert alignment(first, second) == pytest.approx(
        reference.alignment(list(first), list(second)), rel=1e-9
    )
    assert alignment(first.float(), second.float()) == pytest.approx(
        alignment(first, second), rel=1e-5
    )
    assert alignment(first, 3 * first) == pytest.approx(0, abs=1e-12)


class Angles:
    """An encoder of sentences that are angles in degrees."""

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        angles = np.radians([float(sentence) for sentence in sentences])
        return np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32) * 7


def task(text: str, tmp_path: Path) -> GeometryResult:
    path = tmp_path / "angles.tsv"
    path.write_text("sentence1\tsentence2\tscore\n" + text)
    (loaded,) = load_tasks([f"geometry:{path}"])
    result = loaded.score(Angles())[0]
    assert result.name == f"geometry:{path}"
    return result


def test_a_file_of_scored_pairs(tmp_path: Path) -> None:
    result = task("0\t60\t10\n0\t90\t8\n60\t180\t7.9\n90\t0\t0\n", tmp_path)
    assert (result.sentences, result.positives, result.positive) == (4, 2, "score of 8 or more")
    assert result.normalisation == "vectors scaled to length 1"
    assert result.alignment == pytest.approx((1 + 2) / 2)  # the chords of 60 and 90 degrees
    chords = [2 - 2 * math.cos(math.radians(angle)) for angle in (60, 90, 180, 30, 120, 90)]
    assert result.uniformity == pytest.approx(
        math.log(sum(math.exp(-2 * chord) for chord in chords) / 6)
    )
    assert result.scores()[f"{result.name}-alignment"] == result.alignment


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0\t0\t1\n0\t0\t0\n", "one sentence only"),
        ("0\t60\t-1\n0\t90\t-2\n", "no pair has a score of -0.8 or more"),
    ],
)
def test_a_space_without_two_sentences_or_a_positive_is_refused(
    text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        task(text, tmp_path)


def test_the_bundled_pairs_stand_in_for_sts_b(
    monkeypatch: pytest.MonkeyPatch, nothing_fetched: None
) -> None:
    monkeypatch.delenv("ISOTUNE_DATA", raising=False)
    (task,) = load_tasks("geometry")
    assert task.data == source_of("geometry") == "stsb-open:dev"


def test_sts_b_and_qqp(real_data: Path) -> None:
    stsb, qqp = load_tasks(["geometry", "geometry:minbert-quora:dev"])
    pairs = read_scored_pairs("stsb:dev")

    class Random:
        def encode(self, sentences: Sequence[str], /) -> np.ndarray:
            return np.random.default_rng(0).normal(size=(len(sentences), 3))

    result = stsb.score(Random())[0]
    assert (result.data, result.positive) == ("stsb:dev", "score of 4 or more")
    assert result.sentences == len({*pairs.sentence1, *pairs.sentence2})
    assert result.positives == (pairs.scores >= 4).sum()
    assert result.scores().keys() == {"alignment", *OF_A_SPACE}
    duplicates = len(list(read("minbert-quora:dev", Pair)))
    # Scoring it takes seconds.
    assert (qqp.data, qqp.positive, len(qqp.positives)) == (
        "minbert-quora:dev",
        "label 1",
        duplicates,
    )

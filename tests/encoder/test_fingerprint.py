"""The fingerprint is the same for the same encoder in any folder and precision.

Any other encoder has another.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import isotune.encoder.encoder
from isotune.encoder.calibration import CALIBRATION, Calibration
from isotune.encoder.encoder import Encoder
from isotune.encoder.fingerprint import digest, fingerprint
from isotune.encoder.heads import Dense, Normalize
from isotune.encoder.shared_space import SHARED_SPACE


def test_a_digest_depends_on_shape_and_values_but_not_on_the_precision() -> None:
    values = torch.randn(6)
    assert digest(values) == digest(values.bfloat16()) == digest(values.double().float())
    assert (
        len(
            {
                digest(values),
                digest(values.view(2, 3)),
                digest(values * 1.1),
                digest(torch.arange(6)),
            }
        )
        == 4
    )


@pytest.mark.parametrize(
    "options", [{}, {"pooling": "cls", "layers": (1, -1)}, {"prompt": 'a "{sentence}" is {mask}'}]
)
def test_a_copy_and_a_saved_encoder_have_the_same_fingerprint(
    options: dict[str, object], tiny_model: Path, tmp_path: Path, sentences: list[str]
) -> None:
    encoder = Encoder.load(tiny_model, **options)  # type: ignore[arg-type]
    before = encoder.fingerprint()
    assert len(before) == 20
    encoder.encode(sentences)  # sets the tokenizer's truncation
    assert encoder.fingerprint() == before
    encoder.save(tmp_path / "saved")
    shutil.copytree(tmp_path / "saved", tmp_path / "copy")
    assert Encoder.load(tmp_path / "saved").fingerprint() == before
    assert Encoder.load(tmp_path / "copy").fingerprint() == before


CHANGES: list[Callable[[Encoder], object]] = [
    lambda encoder: next(encoder.parameters()).data[3, 2].add_(0.1),
    lambda encoder: encoder.tokenizer.add_tokens(["zebra"]),
    lambda encoder: encoder.heads.append(Normalize()),
    lambda encoder: encoder.heads.append(Dense(32, 32)),
    lambda encoder: setattr(encoder, "pooling", encoder.pooling.__class__("cls")),
    lambda encoder: setattr(encoder, "pooling", encoder.pooling.__class__("mean", (1, -1))),
    lambda encoder: setattr(encoder, "max_length", 7),
    lambda encoder: setattr(encoder, "lowercase", True),
    lambda encoder: setattr(encoder, "prompt", "the "),
]


def test_each_thing_that_decides_the_vectors_changes_the_fingerprint(tiny_model: Path) -> None:
    fingerprints = [Encoder.load(tiny_model).fingerprint()]
    for change in CHANGES:
        encoder = Encoder.load(tiny_model)
        change(encoder)
        fingerprints.append(encoder.fingerprint())
    assert len(set(fingerprints)) == len(CHANGES) + 1


def test_saving_reads_the_weights_once_for_what_holds_for_them_alone(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Encoder.load(tiny_model)
    encoder.space_of = "another"
    encoder.calibration = Calibration(
        slope=1, threshold=0.5, low=0.4, high=0.6, pairs=20, fingerprint=encoder.fingerprint()
    )
    read: list[Encoder] = []

    def counted(of: Encoder) -> str:
        read.append(of)
        return fingerprint(of)

    monkeypatch.setattr(isotune.encoder.encoder, "fingerprint", counted)
    encoder.save(tmp_path / "same")
    assert len(read) == 1
    saved = Encoder.load(tmp_path / "same")
    assert saved.calibration == encoder.calibration
    assert saved.space_of == "another"
    with torch.no_grad():
        next(encoder.parameters()).mul_(1.5)
    encoder.save(tmp_path / "other")
    files = {path.name for path in (tmp_path / "other").iterdir()}
    assert not files & {CALIBRATION, SHARED_SPACE}

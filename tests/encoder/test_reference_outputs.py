"""A saved encoder knows its tokens and vectors.

What breaks it is named, and what does not is silent.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isotune.cli import main
from isotune.encoder.encoder import Encoder
from isotune.encoder.reference_outputs import REFERENCE_OUTPUTS
from isotune.files import CHECKSUMS

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


@pytest.fixture
def saved(tiny_model: Path, tmp_path: Path) -> Path:
    Encoder.load(tiny_model).save(tmp_path / "saved")
    return tmp_path / "saved"


def edit(folder: Path, **changes: Any) -> None:
    """Changes the reference outputs, as if a library gave other ids or vectors than when saved."""
    (folder / CHECKSUMS).unlink(missing_ok=True)
    content = json.loads((folder / REFERENCE_OUTPUTS).read_text())
    if scale := changes.pop("scale", 0):
        changes["vectors"] = (scale * np.array(content["vectors"])).tolist()
    (folder / REFERENCE_OUTPUTS).write_text(json.dumps(content | changes))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_an_unchanged_copy_is_silent(precision: Any, saved: Path) -> None:
    assert Encoder.load(saved, precision=precision).changed(vectors=True) == ""
    assert Encoder.load(saved, pooling="cls").changed(vectors=True) is None


def test_other_tokens_are_named_when_the_encoder_is_loaded(
    saved: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ids = json.loads((saved / REFERENCE_OUTPUTS).read_text())["ids"]
    edit(saved, ids=[[*ids[0], 7], *ids[1:]])
    Encoder.load(saved)
    assert (
        "its tokenizer makes other tokens of 'A dog runs.'; it was saved with tokenizers"
        in caplog.text
    )


@pytest.mark.parametrize(("scale", "right"), [(1.0005, True), (1.01, False)])
def test_other_vectors_are_named_by_doctor_and_after_another_release(
    scale: float,
    right: bool,
    saved: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    edit(saved, scale=scale)
    assert main(["doctor", str(saved)]) == (0 if right else 1)
    assert (
        "saved encoder         WRONG: its vectors are off by 0.01" in capsys.readouterr().out
    ) is not right
    assert "saved with" not in caplog.text
    edit(saved, versions={"torch": "1.0"})
    Encoder.load(saved)
    assert ("it was saved with torch 1.0" in caplog.text) is not right


def test_vectors_of_another_width_are_named(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vectors = json.loads((saved / REFERENCE_OUTPUTS).read_text())["vectors"]
    edit(saved, vectors=[vector[:-1] for vector in vectors])
    assert main(["doctor", str(saved)]) == 1
    assert "WRONG: its vectors have 32 features, not 31" in capsys.readouterr().out


def test_sentence_transformers_reads_the_anchors(saved: Path) -> None:
    (snippet,) = re.findall(r"```python\n(.+?)```", PAGE.read_text(), re.DOTALL)
    for scale in (1.0, 1.1):
        edit(saved, scale=scale)
        values: dict[str, Any] = {}
        exec(snippet.replace("runs/notes/encoder", str(saved)), values)
        assert bool(values["right"]) is (scale == 1.0)


@pytest.mark.parametrize("outputs", ["ids", "vectors"])
def test_outputs_that_do_not_fit_the_texts_are_those_of_another_program(
    outputs: str, saved: Path
) -> None:
    first, *others = json.loads((saved / REFERENCE_OUTPUTS).read_text())[outputs]
    edit(saved, **{outputs: others})
    assert Encoder.load(saved).changed(vectors=True) is None
    if outputs == "vectors":
        edit(saved, vectors=[first[:-1], *others])
        assert Encoder.load(saved).changed(vectors=True) is None

"""The names of models: folders, the bundled model, and names for the hub."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotune.bundled import bundled_model, local_model
from isotune.encoder.format.pretrained import local_folder


@pytest.mark.parametrize("file", ["config.json", "modules.json"])
def test_a_folder_takes_the_bundled_models_name_only_if_it_holds_a_model(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_model("bert-tiny") == bundled_model()
    Path("bert-tiny", "encoder").mkdir(parents=True)  # as `--out bert-tiny` leaves it
    assert local_model("bert-tiny") == local_folder("bert-tiny") == bundled_model()
    assert local_model(tmp_path / "bert-tiny") == tmp_path / "bert-tiny"
    Path("bert-tiny", file).touch()
    assert local_model("bert-tiny") == local_folder("bert-tiny") == Path("bert-tiny")


def test_a_name_that_is_not_on_this_machine_may_be_on_the_hub(tmp_path: Path) -> None:
    assert local_model("google-bert/bert-base-uncased") is None
    (tmp_path / "vectors.txt").touch()
    assert local_model(tmp_path / "vectors.txt") == tmp_path / "vectors.txt"

"""`isotune recipes`, `isotune datasets` and `isotune doctor`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from isotune.data import DATASETS
from isotune.recipes import recipe_names
from tests.cli.conftest import Call


def test_every_recipe_by_its_whole_name(isotune: Call) -> None:
    code, out, _ = isotune("recipes")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:] if line[0] != " "] == recipe_names()
    assert "published: STS average 72.74" in out


def test_every_dataset_by_its_whole_name(isotune: Call) -> None:
    code, out, _ = isotune("datasets")
    assert code == 0
    named = [line.split()[:2] for line in out.splitlines()[2:] if line[0] != " "]
    assert named == [[name, "yes" if name == "stsb-open" else "no"] for name in DATASETS]
    assert "…" not in out


def test_datasets_of_the_users_own(isotune: Call, real_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTUNE_DATA", str(real_data))
    assert re.search(r"^stsb +yes", isotune("datasets").out, re.MULTILINE)


def test_doctor_finds_this_machine_sound(isotune: Call) -> None:
    code, out, _ = isotune("doctor")
    assert code == 0
    assert re.search(r"^datasets here +stsb-open$", out, re.MULTILINE)
    (error,) = re.findall(r"^packed encoder +right: off by (\S+)", out, re.MULTILINE)
    assert 0 < float(error) < 1e-4

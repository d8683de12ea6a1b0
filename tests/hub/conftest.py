"""The hub with tiny copies of everything published."""

from pathlib import Path

import pytest

from isotune.data import datasets
from tests.hub.repositories import DATASETS, REVISIONS, Files
from tests.hub.server import LocalHub


@pytest.fixture(autouse=True)
def _nothing_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nothing_fetched: None) -> None:
    """An empty $ISOTUNE_DATA, and a current folder with nothing in it; a wide terminal."""
    monkeypatch.setenv("ISOTUNE_DATA", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def repositories() -> dict[str, Files]:
    """The files of every published dataset."""
    return {name: make() for name, make in DATASETS.items()}


@pytest.fixture
def published(local_hub: LocalHub, repositories: dict[str, Files]) -> LocalHub:
    """The hub with all of them."""
    for name, files in repositories.items():
        for revision in REVISIONS.get(name, ("main",)):
            local_hub.add(name, files, kind="dataset", revision=revision)
    return local_hub


@pytest.fixture
def uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the tiny copies have other numbers of rows than what is published."""
    uniform = datasets._uniform
    monkeypatch.setattr(datasets, "_uniform", lambda *given: uniform(*given[:-1], expected=-1))

"""The hub with tiny copies of everything published."""

import pytest

from isotune.data import datasets
from tests.hub.repositories import DATASETS, REVISIONS, Files
from tests.hub.server import LocalHub


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

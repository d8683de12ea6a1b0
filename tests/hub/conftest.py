"""The hub with tiny copies of everything published."""

from __future__ import annotations

import pytest

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

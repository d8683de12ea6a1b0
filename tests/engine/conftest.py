"""Small batches are divided among the workers too; the self-guided projection may be small."""

import pytest


@pytest.fixture(autouse=True)
def _a_share_for_each_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotune.engine.workers.SMALLEST", 1)


@pytest.fixture
def small_projection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotune.methods.self_guided.PROJECTION_WIDTH", 32)

"""Small batches are divided among the workers too."""

import pytest


@pytest.fixture(autouse=True)
def _a_share_for_each_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotune.engine.workers.SMALLEST", 1)

"""A study's runs as tasks of a Ray cluster: the runs of a lost machine are made again."""

from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from isotune.lab.studies.page import Results
from isotune.lab.studies.run_study import run_study
from tests.conftest import until

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own


def test_a_study_on_ray(
    table: dict[str, Any],
    write: Callable[[dict[str, Any]], Path],
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, runs = write({**table, "arms": table["arms"][:2]}), tmp_path / "out" / "runs"
    monkeypatch.setenv("RAY_worker_niceness", "0")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    lost = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()

    def lose() -> None:
        until(lambda: list(runs.glob("*/recipe.toml")))
        cluster.add_node(num_cpus=1)
        cluster.remove_node(lost, allow_graceful=False)

    loser = Thread(target=lose)
    loser.start()
    outcome = run_study(
        path, tmp_path / "out", model=str(tiny_model), seeds=(0,), on_ray=True, quiet=True
    )
    loser.join()
    ray.shutdown()
    cluster.shutdown()
    assert outcome.failed == 0
    results = Results.read(tmp_path / "out/study.json")
    assert all(run.values for run in results.runs)
    assert results.facts["processes"] == 1

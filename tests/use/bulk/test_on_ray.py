"""A job on a Ray cluster ends with the same files, also if a machine is lost."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests.use.bulk.conftest import COUNT, MakeJob, visible_files

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]

# Ray runs in processes of its own: it starts threads and changes the environment of the process that uses it.
ON_A_CLUSTER = """
import pickle, sys, threading, time
import ray
from ray.cluster_utils import Cluster
from isotune.use.bulk.on_ray import run_on_ray

job, kill = pickle.load(sys.stdin.buffer)
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
second = cluster.add_node(num_cpus=2)
cluster.connect()

def kill_the_second_node():
    while len(list(job.out.glob("*.parquet"))) < 4:
        time.sleep(0.05)
    cluster.remove_node(second, allow_graceful=False)
    print("killed", flush=True)

if kill:
    threading.Thread(target=kill_the_second_node).start()
print(run_on_ray(job), flush=True)
ray.shutdown()
cluster.shutdown()
"""
ON_THIS_MACHINE = """
import pickle, sys
from pathlib import Path
from isotune.use.bulk.on_ray import run_on_ray
from isotune.errors import InputError

job = pickle.load(sys.stdin.buffer)
print(run_on_ray(job))
Path("text/2.tsv").write_bytes(b"sentence\\ncaf\\xe9\\n")
try:
    run_on_ray(job)
except InputError as error:
    print(error)
"""


def output(script: str, argument: object) -> str:
    """What a script prints that gets the argument as a pickle."""
    pytest.importorskip("ray")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    process = subprocess.run(
        [sys.executable, "-c", script], input=pickle.dumps(argument), env=environment, capture_output=True
    )
    assert process.returncode == 0, process.stderr.decode()[-3000:]
    return process.stdout.decode()


def test_workers_on_this_machine(make_job: MakeJob) -> None:
    make_job(out=Path("undisturbed")).run()
    before = visible_files(Path("undisturbed"))
    outcome, error = output(ON_THIS_MACHINE, make_job()).splitlines()
    assert outcome.startswith(f"Outcome(parts={COUNT}, rows=60,")
    assert error.endswith("is not UTF-8 (1 of 6 parts can't be encoded; the others are done)")
    assert visible_files(Path("out")) == {name: before[name] for name in before if name != "2.parquet"}


@pytest.mark.parametrize("kill", [False, True])
def test_two_nodes(make_job: MakeJob, sentences: list[str], kill: bool) -> None:
    for number in range(40):
        Path(f"text/large-{number}.tsv").write_text("sentence\n" + "\n".join(sentences * 50) + "\n")
    make_job(out=Path("undisturbed")).run()
    printed = output(ON_A_CLUSTER, (make_job(), kill))
    assert ("killed" in printed) == kill
    assert f"Outcome(parts={COUNT + 40}, " in printed
    assert visible_files(Path("out")) == visible_files(Path("undisturbed"))
    assert {path.suffix for path in Path("out/.encoding").iterdir()} == {".json", ".lock"}

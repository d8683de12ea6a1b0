"""Processes that are killed at random moments leave whole files only, and the job ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pyarrow.parquet as pq
import pytest

from tests.use.bulk.conftest import COUNT, MakeJob, visible_files

ROOT = Path(__file__).parents[2]


@contextmanager
def only_whole_files(folder: Path) -> Iterator[None]:
    """Reads every file of vectors again and again while the block runs."""
    done = Event()
    broken: list[str] = []

    def watch() -> None:
        while not done.wait(0.02):
            for path in folder.glob("*.parquet"):
                try:
                    if pq.read_metadata(path).num_rows != 10:
                        broken.append(path.name)
                except OSError as error:
                    broken.append(str(error))

    watcher = Thread(target=watch)
    watcher.start()
    yield
    done.set()
    watcher.join()
    assert broken == []


@pytest.mark.parametrize(
    ("seed", "kills"), [(0, 4), *(pytest.param(seed, 100, marks=pytest.mark.slow) for seed in range(1, 6))]
)
def test_killed_workers(make_job: MakeJob, text_files: list[Path], seed: int, kills: int) -> None:
    for number in range(6 * kills):
        shutil.copy(text_files[number % COUNT], f"text/more-{number}.tsv")
    make_job(out=Path("undisturbed")).run()
    command = [sys.executable, "-m", "tests.use.bulk.kill_workers", str(seed), str(kills)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "OMP_NUM_THREADS": "1"}
    with only_whole_files(Path("out")):
        process = subprocess.run(command, input=pickle.dumps(make_job()), env=environment, capture_output=True)
    assert process.returncode == 0, process.stderr.decode()
    assert int(process.stdout) >= kills / 2
    assert visible_files(Path("out")) == visible_files(Path("undisturbed"))
    # A killed process may leave the hidden file that becomes a record, but no vectors.
    assert not [path for path in Path("out/.encoding").glob("*.part") if not path.name.startswith(".")]
    ours, theirs = (json.loads(Path(out, "_manifest.json").read_text()) for out in ("out", "undisturbed"))
    assert ours == theirs

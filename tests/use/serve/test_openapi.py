"""The server against its OpenAPI description, with requests that schemathesis makes up."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.use.serve.conftest import Running


def check(server: Running, folder: Path, *words: str) -> None:
    program = Path(sys.executable).with_name("schemathesis")
    # A length of vectors that the encoder doesn't have fits the description, and is refused.
    options = ["--exclude-checks=positive_data_acceptance", "--seed=1", "--no-color"]
    command = [program, "run", f"{server.url}/openapi.json", *options, *words]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


def test_made_up_requests_are_answered_as_described(server: Running, tmp_path: Path) -> None:
    check(server, tmp_path, "--phases=fuzzing", "--max-examples=10")


@pytest.mark.slow
def test_many_made_up_requests_are_answered_as_described(searching: Running, tmp_path: Path) -> None:
    check(searching, tmp_path, "--max-examples=300")

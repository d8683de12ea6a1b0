"""The server against its OpenAPI description, with requests that schemathesis makes up."""

import subprocess
import sys
from pathlib import Path

from tests.use.serve.conftest import Running


def test_made_up_requests_are_answered_as_described(searching: Running, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("schemathesis")
    # A length of vectors that the encoder doesn't have fits the description, and is refused.
    options = [
        "--exclude-checks=positive_data_acceptance",
        "--seed=1",
        "--no-color",
        "--phases=fuzzing",
    ]
    options.append("--max-examples=10")
    command = [program, "run", f"{searching.url}/openapi.json", *options]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout

"""The documentation site, by `make docs`."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEAD = [
    "nowhere.md",
    "search.md#no-such-heading",
    "no-picture.png",
    "/absolute.md",
    "../src/no_file.py",
]


@pytest.mark.slow
def test_a_dead_link_is_an_error(tmp_path: Path) -> None:
    def make(target: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["make", target], cwd=copy, capture_output=True, text=True)

    copy = Path(
        shutil.copytree(
            ROOT, tmp_path / "copy", ignore=shutil.ignore_patterns(".*", "dist", "site", "tests")
        )
    )
    if (installed := make(".venv-docs/installed")).returncode:
        pytest.skip(f"can't be installed here: {installed.stderr.strip()[-200:]}")
    built = make("docs")
    assert built.returncode == 0, built.stderr
    page = copy / "docs" / "export.md"
    page.write_text(
        page.read_text("utf-8") + "".join(f"\n[a link]({link})\n" for link in DEAD), "utf-8"
    )
    broken = make("docs")
    assert broken.returncode != 0
    assert f"Aborted with {len(DEAD)} warnings" in broken.stdout

"""Files that are written completely or not at all."""

from pathlib import Path

import pytest

from isotune.files import replacing


def test_a_file_is_replaced_only_when_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    def interrupted() -> None:
        with replacing(path) as part:
            part.write_text("half of the n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    with replacing(path) as part:
        part.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]

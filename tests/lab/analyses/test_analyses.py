"""The table of analyses, what any of them looks at, and the files that it leaves."""

import json
import re
from pathlib import Path

import pytest

from isotune.cli import main
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.lab.analyses import ANALYSES, analyse, read_pairs


@pytest.mark.parametrize("name", ANALYSES)
def test_every_analysis_on_a_file_of_pairs(
    name: str, encoder: Encoder, pairs: Path, tmp_path: Path
) -> None:
    analysis = analyse(name, {"one": encoder, "<two>": encoder}, [str(pairs)])
    assert analysis.title == f"{ANALYSES[name].title} ({ANALYSES[name].source})"
    assert analysis.tasks == [str(pairs)]
    assert analysis.findings
    assert {tuple(row) for row in analysis.table} == {ANALYSES[name].columns}
    folder = tmp_path / "new" / "folder"
    paths = analysis.write(folder)
    assert (
        sorted(paths)
        == sorted(folder.iterdir())
        == [folder / f"{name}.json", folder / f"{name}.png"]
    )
    written = json.loads(paths[0].read_text())
    assert written["table"] == analysis.table
    assert written["findings"] == analysis.findings
    assert paths[1].read_bytes().startswith(b"\x89PNG")


def default_tasks(name: str) -> list[str]:
    return [f"{pairs.name}:{pairs.split}" for pairs in read_pairs(name)]


def test_the_default_tasks_are_the_published_ones(real_data: Path) -> None:
    assert default_tasks("tsne") == ["stsb:dev"]
    assert len(default_tasks("frequent-tokens")) == 7


def test_without_data_the_default_is_the_bundled_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ISOTUNE_DATA", raising=False)
    assert default_tasks("frequent-tokens") == ["stsb-open:test"]
    assert default_tasks("tsne") == ["stsb-open:dev"]


@pytest.mark.parametrize(
    ("name", "tasks", "message"),
    [
        ("cosine", [], "unknown analysis 'cosine': did you mean 'cosines'"),
        ("tsne", ["sts"], "tsne looks at one task at a time; got sts12, sts13, sts14"),
        ("layers", ["stsb-opne"], "did you mean 'stsb-open'"),
    ],
)
def test_invalid_input_is_refused(name: str, tasks: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        analyse(name, {}, tasks)


@pytest.mark.parametrize(
    ("name", "option", "message"),
    [
        ("tsne", "sede", "unknown option of tsne 'sede': did you mean 'seed'? Known: count, seed"),
        ("cosines", "seed", "unknown option of cosines 'seed'. Known: none"),
    ],
)
def test_an_option_that_the_analysis_lacks_is_refused(
    name: str, option: str, message: str, pairs: Path
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        analyse(name, {}, [str(pairs)], **{option: 1})


def test_the_command_checks_its_tasks_before_it_loads_an_encoder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "figures"
    words = ["analyse", "cosines", "no-such-encoder", "--tasks", "stsb-opne", "--out", str(out)]
    assert main(words) == 2
    assert "did you mean 'stsb-open'" in capsys.readouterr().err
    assert not out.exists()

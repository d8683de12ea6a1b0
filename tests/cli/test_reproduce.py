"""`isotune reproduce`: the list, a table, and errors."""

from collections.abc import Callable

import pytest

from isotune.lab.studies import paper_names
from tests.cli.conftest import Call


def test_every_table_and_figure_is_listed(isotune: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    code, out, _ = isotune("reproduce")
    lines = out.splitlines()
    assert code == 0
    rows = {line.split()[0]: line.split() for line in lines if "/" in line[:20] and line[0] != " "}
    assert list(rows) == paper_names()
    assert [rows[name][1] for name in ("consert/table1", "bert-cf/table4", "consert/table4")] == ["0", "3", "5"]
    assert "bert-base-uncased" in out
    assert max(map(len, lines)) <= 100


def test_published_numbers_stand_below_measured_ones(isotune: Call) -> None:
    code, out, err = isotune("reproduce", "consert/table1")
    assert code == 0
    assert err.splitlines()[0].endswith("0 runs, 0 of them already done")
    lines = [line.split() for line in out.splitlines()]
    place = lines.index(["stsb", "5,749", "1,500", "1,379", "17,256"])
    assert lines[place + 1] == ["published", "5,749", "1,500", "1,379", "17,256"]
    assert lines[-1] == ["reproduced/consert/table1/study.html"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["consert/table5"], "unknown table or figure 'consert/table5': did you mean 'consert/table4'?"),
        (["consert/table4", "--options", "steps"], "--options: steps: write NAME=VALUE, such as steps=200"),
        (["consert/table4", "--options", "batch_size=4"], "option batch_size can't be given"),
        (["consert/table2", "--options", "stepps=4"], "unknown option 'stepps': did you mean 'steps'?"),
    ],
)
def test_input_that_is_refused(refused: Callable[..., str], words: list[str], message: str) -> None:
    assert message in refused("reproduce", *words)

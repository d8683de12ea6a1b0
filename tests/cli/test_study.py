"""`isotune study`, `isotune reproduce` and `isotune report`."""

from pathlib import Path

import pytest
import tomli_w

from isotune.lab.studies import Study, read_study
from isotune.lab.studies.run_study import StudyOutcome
from tests.cli.conftest import Call, Refused


@pytest.fixture
def sizes(tmp_path: Path) -> Path:
    """A study that needs no runs."""
    path = tmp_path / "sizes.toml"
    table = {"title": "Sizes", "scores": ["train", "dev"], "statistics": ["stsb-open"]}
    path.write_text(tomli_w.dumps(table))
    return path


def test_the_page_of_a_study_can_be_written_again(
    isotune: Call, sizes: Path, tmp_path: Path
) -> None:
    code, out, err = isotune("study", sizes.name)
    assert (code, out) == (0, "studies/sizes/study.html\n")
    assert err == "Sizes: 0 runs, 0 of them already done\n"
    page = tmp_path / "studies" / "sizes" / "study.html"
    before = page.read_text()
    page.unlink()
    assert isotune("report", page.parent)[:2] == (0, f"{page}\n")
    assert page.read_text() == before


@pytest.mark.parametrize("name", ["own/protocol", "sizes.toml"])
def test_a_shown_study_is_a_study(isotune: Call, sizes: Path, name: str) -> None:
    code, out, err = isotune("study", name, "--show")
    assert (code, err) == (0, "")
    copy = sizes.with_name("copy.toml")
    copy.write_text(out, "utf-8")
    assert read_study(copy) == read_study(name)


@pytest.mark.parametrize("form", ["{folder}/sizes.toml", "../{folder.name}/sizes.toml"])
def test_a_file_elsewhere_gets_its_page_below_studies(
    isotune: Call, sizes: Path, form: str
) -> None:
    out = isotune("study", form.format(folder=sizes.parent)).out
    assert out == "studies/sizes/study.html\n"


def test_a_study_with_failed_runs_ends_with_1(
    isotune: Call, sizes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = StudyOutcome(Path("studies/sizes/study.html"), failed=2)
    monkeypatch.setattr("isotune.lab.studies.run_study.run_study", lambda *_, **__: outcome)
    assert isotune("study", sizes.name) == (1, "studies/sizes/study.html\n", "")


@pytest.mark.usefixtures("outcome")
def test_the_page_of_a_run_can_be_written_again(isotune: Call) -> None:
    page = Path("run", "report.html")
    before = page.read_text()
    page.unlink()
    assert isotune("report", "run")[:2] == (0, "run/report.html\n")
    assert len(page.read_text()) == len(before)  # the ids in matplotlib's figures are random


@pytest.mark.usefixtures("outcome")
def test_no_page_is_written_of_a_run_of_which_a_byte_has_changed(refused: Refused) -> None:
    page = Path("run/report.html")
    page.unlink()
    for path in (
        path for path in Path("run").iterdir() if path.is_file() and path.name != "train.log"
    ):
        content = path.read_bytes()
        path.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
        assert refused("report", "run").startswith("error: run")
        path.write_bytes(content)
    assert not page.exists()


def test_the_trials_that_tell_the_costs_count_against_the_budget(
    isotune: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def an_hour(*_: object) -> None:
        clock[0] += 3600

    def record(*_: object, budget: float, **__: object) -> StudyOutcome:
        budgets.append(budget)
        return StudyOutcome(Path("page"), 0)

    clock, budgets = [0.0], list[float]()
    monkeypatch.setattr("isotune.cli.reproduce.monotonic", lambda: clock[0])
    monkeypatch.setattr("isotune.cli.reproduce._tell_costs", an_hour)
    monkeypatch.setattr("isotune.lab.studies.run_study.run_study", record)
    isotune("reproduce", "clsr/table4", "--budget", "1.5")
    isotune("reproduce", "clsr/table4", "--budget", "0.5")
    assert budgets == [0.5, 0]


def test_all_tables_of_a_paper_end_in_one_page(
    isotune: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_table(*_: object) -> Study:
        return Study.from_table({"title": "Sizes", "scores": ["dev"], "statistics": ["stsb-open"]})

    monkeypatch.setattr("isotune.lab.studies.read_study", one_table)
    monkeypatch.setattr("isotune.lab.studies.run_study.read_study", one_table)
    # Sizes ignore options.
    code, out, err = isotune("reproduce", "clsr", "--all", "--options", "steps=9")
    assert code == 0
    names = [f"clsr/table{number}" for number in range(1, 5)]
    assert out.splitlines()[0] == f"{', '.join(names)}: 0 runs"
    assert f"{names[3]}: no run to make\ntogether: no run to make\n" in err
    assert out.splitlines()[-2:] == ["reproduced/clsr/table4/study.html", "reproduced/clsr.html"]
    assert "no run to make" not in isotune("reproduce", "clsr", "--all", "--budget", "0").err
    page = Path("reproduced", "clsr.html").read_text("utf-8")
    assert page.count("<td>875</td>") == page.count('/study.html">Sizes</a>') == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["study", "none.toml"], "none.toml: it can't be read"),
        (["study", "own/method"], "did you mean 'own/methods' or"),
        (
            ["study", "sizes.toml", "--out", "sizes.toml"],
            "sizes.toml: it can't be made (File exists)",
        ),
        (
            ["study", "sizes.toml", "--threads", "2"],
            "threads 2: 1 or more, for runs on Ray; OMP_NUM_THREADS is for",
        ),
        (
            ["study", "sizes.toml", "--threads", "0", "--engine", "ray"],
            "A number from 1 to 1,000 is needed",
        ),
        (["study", "sizes.toml", "--arm", "none.toml"], "arms none.toml: it can't be read as TOML"),
        (["study", "sizes.toml", "--arm", "mine=simcs"], "simcs is no recipe: give method simcse"),
        (["study", "own/protocol", "--updates", "9"], "updates 9: 10 or more"),
        (["study", "own/metods", "--show"], "did you mean 'own/methods'"),
        (["study", "own/demo", "--show", "--seeds", "1"], "leave the other options out"),
        (["study", "own/demo", "--show", "--budget", "0"], "leave the other options out"),
        (["study", "own/demo", "--show", "--format", "csv"], "leave the other options out"),
        (["report", "."], "is not a run folder"),
        (
            ["reproduce", "consert/table5"],
            "unknown table or figure 'consert/table5': did you mean 'consert/table4' or",
        ),
        (
            ["reproduce", "consert/table4", "--budget", "-1"],
            "A number from 0 to 100,000 is needed",
        ),
        (["reproduce", "concert", "--all"], "unknown paper 'concert': did you mean 'consert'?"),
        (["reproduce", "consert/table4", "--arm", "none.toml"], "arms none.toml: it can't be read"),
        (
            ["reproduce", "consert/table4", "--updates", "20", "--options", "steps=20"],
            "updates and option steps are both given",
        ),
        (
            ["reproduce", "consert/table4", "--options", "steps"],
            "steps: write NAME=VALUE, such as steps=200",
        ),
        (
            ["reproduce", "consert/table4", "--options", "batch_size=4"],
            "option batch_size can't be given",
        ),
        (
            ["reproduce", "consert/table2", "--options", "stepps=4"],
            "unknown option 'stepps': did you mean 'steps'?",
        ),
    ],
)
def test_input_that_is_refused(
    refused: Refused, sizes: Path, words: list[str], message: str
) -> None:
    assert message in refused(*words)

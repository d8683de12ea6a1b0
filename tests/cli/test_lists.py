"""The lists of commands, and `isotune doctor`."""

import json
import math
import re
import tomllib
from collections.abc import Collection
from datetime import date

import numpy as np
import pytest

from isotune.cli.tables import print_json
from isotune.data import DATASETS
from isotune.encoder.encoder import Encoder
from isotune.lab.analyses import ANALYSES
from isotune.lab.studies import paper_names, study_names
from isotune.methods import METHODS
from isotune.recipes import DEFAULT_RECIPE, RECIPES, read_recipe
from tests.cli.conftest import Call, Refused

LISTS: dict[str, Collection[str]] = {
    "recipes": RECIPES,
    "datasets": DATASETS,
    "analyse": ANALYSES,
    "study": study_names(),
    "reproduce": paper_names(),
}


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", LISTS)
def test_a_list_names_all_there_is_in_full(
    command: str,
    columns: int,
    isotune: Call,
    nothing_fetched: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", f"{columns}")
    code, out, _ = isotune(command)
    assert code == 0
    tables = [part.partition("\n\n")[0] for part in out.split("─\n")[1:]]
    rows = [line.split() for line in "\n".join(tables).splitlines() if line[0] != " "]
    assert [row[0] for row in rows] == list(LISTS[command])
    assert command != "datasets" or [row[0] for row in rows if row[1] == "yes"] == ["stsb-open"]
    assert max(map(len, out.splitlines())) <= columns
    assert {sign for sign in out if not sign.isascii()} <= {*"─é"}  # and so no "…"


def test_in_a_pipe_each_recipe_is_a_line(isotune: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    own, published = isotune("recipes").out.split("\n\n")
    first, *_ = names = [line.split()[0] for line in own.splitlines()[3:]]
    names += [line.split()[0] for line in published.splitlines()[3:]]
    assert (first, names) == (DEFAULT_RECIPE, list(RECIPES))


def test_recipes_for_own_texts_stand_apart_from_those_of_papers(isotune: Call) -> None:
    own, published = isotune("recipes").out.split("\n\n")
    assert own.startswith("for texts of your own:\n")
    assert published.startswith("the settings of papers")
    assert {"classify", "crops", "pairs"} <= {line.split()[0] for line in own.splitlines()}
    assert {"simcse-unsup", "whitening"} <= {line.split()[0] for line in published.splitlines()}


def test_methods_are_listed(isotune: Call, refused: Refused) -> None:
    listed = json.loads(isotune("recipes", "--methods", "--json").out)
    assert [entry["name"] for entry in listed] == list(METHODS)
    assert "leave simcse out" in refused("recipes", "simcse", "--methods")
    shown = isotune("train", "--help").out
    assert "isotune recipes --methods" in shown
    assert "self-guided-bt:" not in shown


def test_a_recipe_is_printed_with_the_sources_of_its_values(
    isotune: Call, refused: Refused
) -> None:
    out = isotune("recipes", "simcse-unsup").out
    assert tomllib.loads(out) == read_recipe("simcse-unsup")
    assert "temperature = 0.05  # the script" in out
    assert "unknown recipe 'simcse-unsupp': did you mean 'simcse-unsup' or " in refused(
        "recipes", "simcse-unsupp"
    )


def test_the_lists_as_json(isotune: Call, nothing_fetched: None) -> None:
    recipes = {each["name"]: each for each in json.loads(isotune("recipes", "--json").out)}
    assert list(recipes) == list(RECIPES)
    assert recipes["consert-unsup-base"]["data"] == ["senteval-sts-unlabelled"]
    datasets = {each["name"]: each for each in json.loads(isotune("datasets", "--json").out)}
    assert list(datasets) == list(DATASETS)
    assert [name for name, each in datasets.items() if each["here"]] == ["stsb-open"]
    assert (
        datasets["stsb"]["rows"]
        == datasets["stsb"]["scored"]
        == {"train": 5749, "dev": 1500, "test": 1379}
    )
    runs = {each["name"]: each["runs"] for each in json.loads(isotune("reproduce", "--json").out)}
    assert [runs[name] for name in ("consert/table1", "bert-cf/table4", "consert/table4")] == [
        0,
        3,
        5,
    ]
    assert json.loads(isotune("doctor", "--json").out)["packed encoder"].startswith("right")


def test_json_has_no_value_that_strict_parsers_refuse(capsys: pytest.CaptureFixture[str]) -> None:
    print_json(
        {
            "nan": math.nan,
            "infinite": [-math.inf],
            "bytes": b"\xff\xfe",
            "day": date(2024, 12, 31),
            "word": "犬",
        }
    )

    def refuse(word: str) -> None:
        raise AssertionError(word)

    content = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert content == {
        "nan": None,
        "infinite": [None],
        "bytes": "__4=",
        "day": "2024-12-31",
        "word": "犬",
    }


def test_doctor_passes_on_this_machine(isotune: Call, nothing_fetched: None) -> None:
    code, out, _ = isotune("doctor")
    assert code == 0
    assert re.search(r"^datasets here +stsb-open$", out, re.MULTILINE)
    (error,) = re.findall(r"^packed encoder +right: off by (\S+)", out, re.MULTILINE)
    assert float(error) < 1e-4


def test_doctor_ends_with_1_if_the_packed_encoder_is_wrong(
    isotune: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = iter([np.zeros((2, 3)), np.ones((2, 3))])
    monkeypatch.setattr(Encoder, "encode", lambda *_: next(vectors))
    code, out, _ = isotune("doctor")
    assert code == 1
    assert re.search(r"^packed encoder +WRONG: off by 1\.0e\+00", out, re.MULTILINE)

import codecs
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from isotune.errors import InputError
from isotune.lab.studies import Study, read_study, study_names
from isotune.lab.studies.plan import plan_runs


@pytest.fixture
def table() -> dict[str, Any]:
    return {
        "title": "Batch size",
        "tasks": ["stsb"],
        "scores": ["stsb", "steps"],
        "grid": {"batch_size": [16, 32]},
        "arms": [
            {"name": "BERT", "options": {"pooling": "mean"}},
            {"name": "ConSERT", "recipe": "consert-unsup-base"},
        ],
        "published": [{"arm": "ConSERT", "at": {"batch_size": 16}, "scores": {"stsb": 72.7}}],
        "figures": [{"kind": "curve", "x": "batch_size", "y": "stsb"}],
    }


def test_a_file_may_begin_with_a_byte_order_mark(table: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(tomli_w.dumps(table), "utf-8-sig")
    assert path.read_bytes().startswith(codecs.BOM_UTF8)
    assert read_study(path) == Study.from_table(table)


def test_the_packages_studies_can_be_read() -> None:
    assert {"consert/table4", "own/methods"} <= set(study_names())
    for name in study_names():
        study = read_study(name)
        assert study.title
        assert plan_runs(study) or study.statistics


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"title": None}, "title: Field required"),
        ({"seeds": []}, "seeds: Tuple should have at least 1 item"),
        ({"grid": {"seed": [1, 2]}}, "seed isn't given as an option"),
        ({"judge": "sts"}, "unknown score to judge by 'sts': did you mean 'stsb' or 'steps'?"),
        ({"analyses": ["layer"]}, "unknown analysis 'layer': did you mean 'layers'?"),
        ({"arms": [{"name": "a"}, {"name": "a"}]}, "two arms are called a"),
        (
            {"arms": [{"name": "a", "data": ["x"]}]},
            "arm a: data or start is given, but it has no recipe or method",
        ),
        (
            {"arms": [{"name": "a", "recipe": "mlm", "start": "b"}]},
            "unknown trained arm before a 'b'",
        ),
        ({"published": [{"arm": "a", "scores": {"sts": 1}}]}, "unknown score in published 1 'sts'"),
        (
            {"published": [{"arm": "a", "at": {"batch": 1}, "scores": {}}]},
            "unknown option of the grid in published 1",
        ),
        (
            {
                "analyses": ["layers"],
                "published": [{"arm": "a", "analysis": "layers", "scores": {"spaerman": 1}}],
            },
            "unknown column of layers in published 1 'spaerman': did you mean 'spearman'",
        ),
        (
            {
                "analyses": ["layers"],
                "published": [
                    {"arm": "a", "analysis": "layers", "at": {"lyer": 1}, "scores": {"spearman": 1}}
                ],
            },
            "unknown column of layers in published 1 'lyer': did you mean 'layer'",
        ),
        (
            {"figures": [{"kind": "curve", "y": "stsb", "x": "steps"}]},
            "unknown option of the grid in figure 1 'steps'",
        ),
    ],
)
def test_an_invalid_study_is_refused_in_one_line(
    table: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    changed = {key: value for key, value in {**table, **change}.items() if value is not None}
    if "grid" in change:
        changed |= {"published": [], "figures": []}
    with pytest.raises(InputError, match=f"^study x: .*{re.escape(message)}"):
        Study.from_table(changed, "study x")


def test_reading_a_study_loads_no_torch_and_its_needs_no_transformers_or_scipy() -> None:
    lines = (
        "import sys",
        "import isotune.lab.studies",
        "isotune.lab.studies.read_study('own/methods')",
        "assert 'torch' not in sys.modules",
        "import isotune.lab.studies.plan",
        "assert not {'transformers', 'scipy'} & sys.modules.keys()",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)

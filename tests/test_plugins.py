"""What the plugin of docs/plugins.md adds, and what is said where it is missing."""

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import tomli_w
import torch

import isotune
from isotune import plugins
from isotune.cli import main
from isotune.data import DATASETS
from isotune.data.packed import pack
from isotune.encoder.format.modules import HEADS
from isotune.encoder.options import POOLINGS
from isotune.encoder.pooling import Pooling
from isotune.errors import InputError
from isotune.evaluation.tasks import TASKS
from isotune.methods import METHODS, OPTIONS
from isotune.methods.options import AugmentedOptions
from isotune.recipes import RECIPES, Recipe
from isotune.registry import Registry
from isotune.use.export.onnx import PaddedEncoder
from isotune.views import AUGMENTATIONS
from tests.conftest import reopened, unfinish
from tests.methods.test_methods import make_batch

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "plugins.md").read_text("utf-8")
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = FENCE.findall(PAGE)
REGISTRIES: tuple[Registry[Any], ...] = (
    METHODS,
    OPTIONS,
    AUGMENTATIONS,
    POOLINGS,
    HEADS,
    TASKS,
    DATASETS,
    RECIPES,
)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undoes at the end of the test what it registers from here on."""
    monkeypatch.setattr(plugins, "_LOADED", {})
    for registry in REGISTRIES:
        own = {
            name: entry
            for name, entry in registry._entries.items()
            if registry._origins[name] == "isotune"
        }
        monkeypatch.setattr(registry, "_entries", own)
        monkeypatch.setattr(registry, "_origins", dict.fromkeys(own, "isotune"))


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The plugin of the page, not loaded yet."""
    path = tmp_path / "my_plugin.py"
    path.write_text(CODE[0])
    modules = {*sys.modules}
    forget(monkeypatch)
    yield path
    for name in {name for name in sys.modules if name.startswith("isotune_plugin_")} - modules:
        del sys.modules[name]


@pytest.fixture
def short(short: dict[str, Any], pairs: Path, tmp_path: Path) -> dict[str, Any]:
    """A run with everything that the plugin adds."""
    added = {
        "method": "mine",
        "pooling": "last",
        "augmentations": ("none", "first_half"),
        "dev": "none",
    }
    return {
        **short,
        **added,
        "tasks": ["plurals", str(pairs)],
        "out": tmp_path / "run",
        "steps": 4,
        "eval_every": 2,
    }


PROMISED = """
    AddVectors Additions Augmentation AugmentedOptions Batch Classifier ClassifierHead ClosedForm
    Encoder Feed Head HeadSettings HiddenStates Index InputError LabelledPair LabelledSentence Look
    Method MethodOptions Packed Pair Result ScoredFeed ScoredPair Sentence TaskRows TrainingFailed
    Triplet View __version__
    add_datasets add_recipe analyse augmentation calibrate compare evaluate export_onnx head
    load_plugin look method pooling read read_documents read_scored_pairs run_study task train
    tune_process
"""


def test_the_promised_names_stay_and_have_a_description_and_an_example() -> None:
    assert set(PROMISED.split()) == set(isotune.__all__)
    code = "".join(
        block for page in DOCS.glob("*.md") for block in FENCE.findall(page.read_text("utf-8"))
    )
    for name in isotune.__all__:
        assert getattr(isotune, name) is not None
        assert name in dir(isotune)
        assert re.search(rf"`{name}[`(]", PAGE), name
        assert re.search(rf"\bisotune(\.| import .*\b){name}\b", code), name


def test_a_plugin_trains_evaluates_saves_and_loads_and_is_needed_again(
    plugin: Path,
    short: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert len(CODE[0].splitlines()) < 60
    isotune.load_plugin(plugin)
    records: list[dict[str, Any]] = []
    result = isotune.train(**short, watch=records.append)

    lines = [
        json.loads(line) for line in (result.folder / "metrics.jsonl").read_text().splitlines()
    ]
    assert [
        {key: value for key, value in line.items() if key != "crc32"} for line in lines
    ] == records
    assert set(result.evaluation.after.scores()) == {"plurals", str(short["tasks"][1])}
    encoder = result.encoder
    assert [type(head).__name__ for head in encoder.heads] == ["Scale"]
    assert encoder.pooling.mode == "last"
    scores = isotune.evaluate(encoder, "plurals").scores()
    assert scores == pytest.approx({"plurals": result.evaluation.after.scores()["plurals"]})
    sha256 = hashlib.sha256(plugin.read_bytes()).hexdigest()
    assert json.loads((result.folder / "environment.json").read_text())["plugins"] == {
        str(plugin): sha256
    }
    assert json.loads((result.folder / "encoder" / "plugins.json").read_text()) == {
        str(plugin): sha256
    }
    assert plugins.loaded_plugins() == (plugins.Plugin(str(plugin), sha256),)

    unfinish(result.folder)
    forget(monkeypatch)
    missing = f"was made with the plugin {re.escape(str(plugin))}; give --plugin"
    with pytest.raises(InputError, match=f"^run {re.escape(str(result.folder))} {missing}"):
        isotune.train(out=result.folder, resume=True, quiet=True)
    with pytest.raises(
        InputError, match=f"^encoder {re.escape(str(result.folder / 'encoder'))} {missing}"
    ):
        isotune.Encoder.load(result.folder / "encoder")

    plugin.write_text(CODE[0] + "\n# changed\n")
    isotune.load_plugin(plugin)
    with pytest.raises(InputError, match="has changed since the run was started"):
        isotune.train(out=result.folder, resume=True, quiet=True)
    isotune.Encoder.load(result.folder / "encoder")
    assert "has changed since it was saved" in caplog.text

    plugin.write_text(CODE[0])
    isotune.load_plugin(plugin)
    assert isotune.train(out=result.folder, resume=True, quiet=True).folder == result.folder


def test_the_second_example_trains_on_pairs_from_memory(
    plugin: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plugin_code, program, rows = CODE[2:5]
    Path("partners.py").write_text(plugin_code)
    names: dict[str, Any] = {"isotune": isotune}
    exec(
        program.replace(
            "rows=", f"model={str(tiny_model)!r}, steps=1, dev='none', quiet=True, rows="
        ),
        names,
    )
    assert (names["result"].folder / "encoder").is_dir()
    exec(rows, names)


def test_the_command_line_takes_the_plugin(
    plugin: Path, short: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"--model {short['model']} --method mine --pooling last".split()
    words += ["--steps", "2", "--batch-size", "8", "--dev", "none"]
    words = [
        "train",
        str(short["sources"]),
        *words,
        *["--augmentations", "none", "first_half", "--tasks", "plurals"],
    ]
    out = str(short["out"])
    assert main([*words, "--out", out]) == 2
    assert "unknown method 'mine'" in capsys.readouterr().err
    assert main([*words, "--out", out, "--plugin", str(plugin)]) == 0
    assert main(["evaluate", f"{out}/encoder", "--tasks", "plurals", "--plugin", str(plugin)]) == 0
    assert "Plurals, score x 100" in capsys.readouterr().out


def test_the_runs_of_a_study_load_the_plugin(
    plugin: Path, short: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = {key: short[key] for key in ("pooling", "batch_size", "steps", "eval_every", "dev")}
    arm = {"name": "mine", "method": "mine", "data": [str(short["sources"])], "options": options}
    study = {
        "title": "Mine",
        "model": short["model"],
        "tasks": ["plurals"],
        "scores": ["plurals"],
        "arms": [arm],
    }
    (tmp_path / "study.toml").write_text(tomli_w.dumps(study))
    words = [
        "study",
        str(tmp_path / "study.toml"),
        "--out",
        str(tmp_path / "out"),
        "--plugin",
        str(plugin),
    ]
    assert main(words) == 0, capfd.readouterr().err


def test_sentence_transformers_gives_the_same_vectors_with_a_pooling_of_a_plugin(
    plugin: Path, tiny_model: Path, tmp_path: Path
) -> None:
    isotune.load_plugin(plugin)
    for layers in ([-1], [0, -1]):
        encoder = isotune.Encoder.load(tiny_model, pooling="last", layers=layers)
        folder, sentences = (
            tmp_path / f"encoder{len(layers)}",
            ["a man plays", "the small dog is in the house ."],
        )
        again = reopened(encoder, folder, sentences, trust_remote_code=True)
        assert again.fingerprint() == encoder.fingerprint()
    with pytest.raises(InputError, match="pooling last: not made for ONNX; export one of"):
        PaddedEncoder(encoder)


def test_the_pooling_of_the_page_takes_the_last_token(plugin: Path) -> None:
    isotune.load_plugin(plugin)
    tokens = pack([[1, 2, 3], [4], [5, 6]])
    states = {0: torch.arange(6.0)[:, None]}
    ids = tokens.ids[Pooling("last", (0,))(states, tokens).squeeze(1).long()]
    assert tokens.restore(ids).tolist() == [3, 4, 6]


@pytest.mark.parametrize(
    "name", [name for name, options in OPTIONS.items() if issubclass(options, AugmentedOptions)]
)
def test_every_method_with_views_takes_the_augmentation(
    plugin: Path, tiny_model: Path, sentences: list[str], name: str
) -> None:
    isotune.load_plugin(plugin)
    encoder = isotune.Encoder.load(tiny_model)
    method = METHODS[name](OPTIONS[name](augmentations=("none", "first_half")), encoder)
    views = method.views(method.draw(make_batch(method, encoder, sentences)))
    assert "FirstHalf" in {type(view.augmentation).__name__ for view in views}


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("\n\nx = 1 / 0", r":3: ZeroDivisionError: division by zero"),
        ("x = 1\nclass", r":2: SyntaxError: "),
        (
            "import isotune\n@isotune.pooling('cls')\ndef f(hidden): ...",
            r":2: pooling 'cls' exists already",
        ),
    ],
)
def test_a_plugin_that_fails_is_one_line(plugin: Path, code: str, message: str) -> None:
    plugin.write_text(code)
    with pytest.raises(InputError, match=f"^plugin {re.escape(str(plugin))}{message}"):
        isotune.load_plugin(plugin)
    assert plugins.loaded_plugins() == ()


def test_a_file_runs_once_and_again_after_a_change(plugin: Path) -> None:
    plugin.write_text(
        "import isotune, sys\nsys.runs = getattr(sys, 'runs', 0) + 1\n"
        "@isotune.task('one')\ndef f(e): ..."
    )
    for _ in range(2):
        isotune.load_plugin(plugin)
    assert sys.runs == 1  # type: ignore[attr-defined]
    plugin.write_text(plugin.read_text() + "\n")
    isotune.load_plugin(plugin)
    assert sys.runs == 2  # type: ignore[attr-defined]
    del sys.runs  # type: ignore[attr-defined]


def test_the_closed_form_of_the_page_centres_the_text(
    plugin: Path, tiny_model: Path, text: Path, sentences: list[str], pairs: Path
) -> None:
    plugin.write_text(next(block for block in CODE if block.startswith('"""centre.py"""')))
    isotune.load_plugin(plugin)
    out = plugin.with_name("run")
    options = {
        "model": str(tiny_model),
        "method": "centre",
        "dev": "none",
        "tasks": [str(pairs)],
        "quiet": True,
    }
    encoder = isotune.train(text, out=out, **options).encoder
    np.testing.assert_allclose(encoder.encode(sentences).mean(0), 0, atol=1e-6)


def test_installed_plugins_are_imported_when_a_name_is_missing(
    plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("my_package")
    monkeypatch.setitem(sys.modules, "my_package", module)
    point = EntryPoint("mine", "my_package:add", "isotune.plugins")
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: [point] if group == point.group else []
    )
    plugins.load_installed.cache_clear()
    with pytest.raises(
        InputError, match=r"^plugin mine of the package my_package:add: AttributeError"
    ):
        METHODS["mine"]
    module.add = None  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"^unknown method .simsce.: did you mean .simcse."):
        METHODS["simsce"]
    plugins.load_installed.cache_clear()


def test_a_task_has_one_score_or_several_and_they_are_bounded(plugin: Path) -> None:
    isotune.task("two")(lambda encoder: {"low": -0.5, "high": 1.0})
    isotune.task("percent")(lambda encoder: 71.0)
    encoder = type("Nothing", (), {"encode": None})()
    assert isotune.evaluate(encoder, "two").scores() == {"two-low": -0.5, "two-high": 1.0}
    with pytest.raises(InputError, match="task percent: values: percent"):
        isotune.evaluate(encoder, "percent")


def test_a_dataset_and_a_recipe_from_toml(plugin: Path, tmp_path: Path, pairs: Path) -> None:
    sha256, rows = (
        hashlib.sha256(pairs.read_bytes()).hexdigest(),
        len(pairs.read_text().splitlines()) - 1,
    )
    table = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
    file = tmp_path / "notes.toml"
    file.write_text(
        table.replace("notes.tsv", pairs.name).replace("…", sha256).replace("250", str(rows))
    )
    isotune.add_datasets(file)
    assert len(isotune.evaluation.load_tasks("notes-sts:test")[0].pairs.scores) == rows

    recipe = tmp_path / "fast.toml"
    recipe.write_text('title = "Fast"\n[[stages]]\nmethod = "simcse"\nsteps = 1\n')
    isotune.add_recipe(recipe)
    assert Recipe.from_table(isotune.recipes.read_recipe("fast")).stages[0].training.steps == 1

    file.write_text("[stsb]\ncitation = ''\nlicence = ''\n")
    with pytest.raises(InputError, match="dataset 'stsb' exists already, from isotune"):
        isotune.add_datasets(file)
    file.write_text("[other]\nlicense = ''\n")
    with pytest.raises(InputError, match=r"notes.toml: .*'license'"):
        isotune.add_datasets(file)


@pytest.mark.parametrize("title", ["Weights & Biases", "MLflow", "TensorBoard"])
def test_the_example_for_a_tracker_gives_it_the_numbers(title: str) -> None:
    (code,) = re.findall(rf"^{title}:\n\n```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    tracker = MagicMock()
    names: dict[str, Any] = dict.fromkeys(("wandb", "mlflow", "SummaryWriter"), tracker)
    exec(code, names)
    names["watch"](
        {"kind": "dev", "stage": 1, "step": 2, "metric": "spearman", "score": 0.7, "best": True}
    )
    (call,) = (call for call in tracker.mock_calls if "dev/score" in str(call))
    assert "0.7" in str(call)
    assert "2" in str(call)
    assert "spearman" not in str(tracker.mock_calls)


@pytest.mark.parametrize("name", ["~nobody_such/a.py", "two\nlines.py", "nul\0.py"])
def test_a_plugin_that_can_not_be_there_is_one_line(name: str) -> None:
    with pytest.raises(InputError, match=r"^plugin .*: it can't be read .*; give a Python file$"):
        plugins.load_plugin(name)

"""Numbers that no change of the structure changes: short runs of every recipe and of every method,
and what they gave.

golden.json has for each run the losses of its steps, features of the first text's vector, the
scores before and after, and the verdict. `ISOTUNE_GOLDEN=write .venv/bin/pytest
tests/training/test_golden.py` makes the file anew; the commit then says which numbers changed, and
why.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import isotune
from isotune.bundled import BUNDLED_MODEL
from isotune.evaluation.results import Evaluation, STSResult
from isotune.methods import METHODS, OPTIONS
from isotune.recipes import RECIPES, Recipe, starting_table
from tests.training.conftest import metrics

GOLDEN = Path(__file__).with_name("golden.json")
WRITES = os.environ.get("ISOTUNE_GOLDEN") == "write"
SHORT = {
    "batch_size": 8,
    "steps": 12,
    "eval_every": 6,
    "learning_rate": 1e-3,
    "max_length": 24,
    "precision": "float32",
}
SMALL = {
    "width": 8,
    "dimensions": 16,
    "sentiment_batch_size": 8,
    "paraphrase_batch_size": 8,
    "similarity_batch_size": 8,
}
GUESSED = {
    "parser": "words",
    "translate": None,
    "beams": None,
    "rate_width": None,
    "chunk_size": None,
    "epochs": None,
}
VERDICTS = ("NEW", "KEEP", "CAN'T TELL")
NLI = ("contradiction", "entailment", "neutral")
CLASSES = {
    "nli": NLI,
    "consert-joint": NLI,
    "finetune-sentence": ("0", "1"),
    "multitask": ("0", "1"),
    "supcon": ("0", "1"),
    "classifier": ("0", "1"),
}


def rows(sentences: list[str], classes: Sequence[str], path: Path) -> str:
    """A file that has the columns of every kind of row, with labels of these classes if there are
    any."""
    with path.open("w") as file:
        for i, (a, b) in enumerate(zip(sentences[:30], sentences[30:], strict=True)):
            texts = {
                "sentence": a,
                "sentence1": a,
                "sentence2": b,
                "anchor": a,
                "positive": b,
                "negative": b[::-1],
            }
            label = {"label": classes[i % len(classes)]} if classes else {}
            file.write(json.dumps({**texts, **label, "score": 5 - i % 6}) + "\n")
    return str(path)


def short_run(name: str, sentences: list[str], model: Path, pairs: Path) -> dict[str, Any]:
    """The recipe `name`, or "method NAME" with its defaults, as a table of a few steps on small
    data."""
    recipe, _, method = name.partition("method ")
    table = Recipe.from_table(starting_table(recipe or None, method or None, str(model))).table()
    for number, stage in enumerate(table["stages"]):
        options = OPTIONS[stage["method"]]
        known = {*options.model_fields, *stage}
        stage |= {
            key: value
            for key, value in {**SHORT, **SMALL}.items()
            if key in known or key == "steps"
        }
        for key, value in GUESSED.items():
            stage.pop(key, None)
            if value is not None and key in known:
                stage[key] = value
        if stage["method"] == "linear-map" or stage.get("match") == "vectors":
            stage["teachers"] = [str(BUNDLED_MODEL)]
        classes = CLASSES.get(stage["method"]) or stage.get("classes") or ()
        file = rows(sentences, classes, pairs.with_name(f"rows-{number}.jsonl"))
        if stage["method"] == "crops":
            file = str(pairs.with_name("paragraphs.jsonl"))
            texts = ("\n".join(sentences[i : i + 3]) for i in range(0, 60, 3))
            Path(file).write_text("\n".join(json.dumps({"text": text}) for text in texts))
        for key in [key for key in stage if key.endswith(("_data", "_dev", "_test"))]:
            stage[key] = [file]
        sources = [key for key in stage if key.endswith("_data")]
        if not set(sources) - {"dev_data", "test_data"}:
            stage["data"] = [file]
    dev = "none" if table["dev"] == "none" else str(pairs)
    table |= {
        "model": str(model),
        "dev": dev,
        "tasks": [str(pairs)],
        "data": [],
        "published_on": [],
    }
    table["encoder"].pop("layers", None)
    return table


def _pair_score(evaluation: Evaluation) -> float:
    """Spearman's correlation on the first pairs. A run on labels has the rows set apart beside."""
    first = next(task for task in evaluation.tasks if isinstance(task, STSResult))
    return round(first.spearman.all, 6)


@pytest.mark.parametrize("name", [*RECIPES, *(f"method {name}" for name in METHODS)])
def test_a_short_run_gives_what_it_always_gave(
    name: str,
    sentences: list[str],
    tiny_model: Path,
    pairs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("isotune.training.stage.RECORD_EVERY", 1)
    table = short_run(name, sentences, tiny_model, pairs)
    (tmp_path / "short.toml").write_text(tomli_w.dumps(table))
    result = isotune.train(recipe=tmp_path / "short.toml", out=tmp_path / "run", quiet=True)
    evaluation = result.evaluation
    *_, last = (result.folder / "train.log").read_text().splitlines()
    numbers = {
        "losses": [round(record["loss"], 6) for record in metrics(result.folder, "train")],
        "vector": [round(float(x), 6) for x in result.encoder.encode(sentences[0])[:6]],
        "scores": [_pair_score(evaluation.before), _pair_score(evaluation.after)],
        "verdict": next(
            (verdict for verdict in VERDICTS if last.split(maxsplit=2)[-1].startswith(verdict)),
            None,
        ),
    }
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if WRITES:
        lines = (
            f"{json.dumps(key)}: {json.dumps(value)}"
            for key, value in sorted({**golden, name: numbers}.items())
        )
        GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return
    expected = golden[name]
    assert numbers["verdict"] == expected["verdict"]
    close = 1e-3 if name == "minbert-flow" else 1e-4  # its flow differs by 6e-4 among processors
    for kind in ("losses", "vector", "scores"):
        assert numbers[kind] == pytest.approx(expected[kind], rel=1e-3, abs=close)

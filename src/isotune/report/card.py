"""The model card of an encoder: README.md, as the Hugging Face hub shows it.

What a card says is read from the run folder around the encoder. What is not known there is said to be unknown. Names of
local files and folders are told without their paths.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from isotune.bundled import BUNDLED_MODEL, local_model
from isotune.data import DATASETS
from isotune.encoder.encoder import Encoder
from isotune.encoder.format.modules import FLAGS
from isotune.encoder.format.prompt import fill_mask, split_prompt
from isotune.errors import telling
from isotune.evaluation.results import GeometryResult, RunEvaluation
from isotune.evaluation.tasks import task_title
from isotune.files import read_json, read_toml, verify_checksums, write_text
from isotune.report.stages import OPTIONAL
from isotune.report.templates import template

CARD = "README.md"
UNKNOWN = "unknown"


def write_card(encoder: Encoder, folder: Path) -> Path:
    """Writes the card into an encoder's folder, with the licence that was added to the card isotune wrote before."""
    from huggingface_hub import metadata_load

    path = folder / CARD
    with telling(
        Exception, f"{path}: its first lines are no YAML", "; mend the file, or remove it"
    ):
        earlier = (metadata_load(path) or {}) if path.exists() else {}
    licence = str(earlier.get("license", "")) if "isotune" in (earlier.get("tags") or ()) else ""
    write_text(path, model_card(encoder, folder, licence=licence))
    return path


def model_card(
    encoder: Encoder, source: str | Path, *, licence: str = "", onnx: bool = False
) -> str:
    """The text of a model card, of the encoder that was loaded from `source`, or with `onnx` of its ONNX folder."""
    folder = Path(source)
    run = (
        _read_run(folder.parent)
        if folder.name == "encoder" and (folder.parent / "recipe.toml").exists()
        else None
    )
    name = str(source)
    if folder.exists():
        name = folder.resolve().parent.name if run else folder.resolve().name
    before, after = split_prompt(encoder.prompt, encoder.lowercase)
    return template("card.md.j2").render(
        name=name,
        encoder=encoder,
        run=run,
        onnx=onnx,
        licence=licence,
        before=fill_mask(before, encoder.tokenizer),
        exportable=encoder.pooling.mode in FLAGS,
        after=after,
        metadata=_metadata(run, str(source), licence, onnx),
        needs_isotune=encoder.pooling.mode not in FLAGS
        or not all(head.type_name.startswith("sentence_transformers.") for head in encoder.heads),
    )


def _metadata(run: Mapping[str, Any] | None, source: str, licence: str, onnx: bool) -> str:
    from huggingface_hub import ModelCardData

    base = run["model"] if run else source
    data = (
        [row["source"].removeprefix("hub:").partition(":")[0] for row in run["data"]] if run else []
    )
    values: dict[str, Any] = {
        "base_model": base if local_model(base) is None and "/" in base else None,
        "datasets": sorted({name for name in data if "/" in name}) or None,
        "license": licence or None,
        "library_name": "onnx" if onnx else "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": ["sentence-similarity", "feature-extraction", "isotune"],
    }
    return ModelCardData(**values).to_yaml()


def _read_run(folder: Path) -> dict[str, Any]:
    verify_checksums(folder, missing_ok=OPTIONAL)
    recipe = read_toml("recipe", folder / "recipe.toml", {})
    model = str(recipe.get("model", BUNDLED_MODEL))
    local, path = local_model(model), folder / "evaluation.json"
    evaluation = RunEvaluation.read(path) if path.exists() else None
    return {
        "isotune": read_json(folder / "environment.json", missing_ok=True).get("isotune", UNKNOWN),
        "model": local.name if local else model,
        "model_licence": _model_licence(model),
        "kept_start": evaluation is not None and evaluation.selected_step == 0,
        "verdict": evaluation and evaluation.verdict,
        "methods": [stage["method"] for stage in recipe["stages"]],
        "scores": list(_scores(evaluation)) if evaluation else [],
        "data": list(_data(read_json(folder / "data.json", missing_ok=True))),
        "recipe": tomli_w.dumps(_without_paths(recipe)).strip(),
    }


def _scores(evaluation: RunEvaluation) -> Iterator[tuple[str, float, float]]:
    """The tasks of a run, with their scores x 100 before and after; geometry does not say which encoder is better."""
    before, after = evaluation.before.scores(), evaluation.after.scores()
    spaces = [
        task.scores()
        for task in evaluation.after.tasks
        if isinstance(task, GeometryResult)
    ]
    for task in (name for name in before if name not in set().union(*spaces)):
        yield task_title(task), 100 * before[task], 100 * after[task]


def _data(stages: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for facts in {
        facts["sha256"]: facts for facts in stages.values() if "sha256" in facts
    }.values():
        sources = [_told(source) for source in facts["sources"]]
        names = ", ".join(name for name, _ in sources) or "rows from Python"
        licence = (
            "; ".join(dict.fromkeys(licence for _, licences in sources for licence in licences))
            or UNKNOWN
        )
        yield {
            "source": names,
            "rows": facts["rows"],
            "sha256": facts["sha256"],
            "licence": licence,
        }


def _without_paths(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without_paths(item) for key, item in value.items()}
        case list():
            return [_without_paths(item) for item in value]
        case str() if "/" in value and (Path(value).is_absolute() or Path(value).exists()):
            return Path(value).name
    return value


def _told(source: str) -> tuple[str, list[str]]:
    """What a card says of a source: its name, and its licences."""
    name = source.partition(":")[0]
    if name == "hub":
        return source, [f"as https://huggingface.co/datasets/{source.split(':')[1]} says"]
    if name not in DATASETS:
        return Path(source).name, [UNKNOWN]
    return source, [DATASETS[member].licence for member in DATASETS[name].union or (name,)]


def _model_licence(model: str) -> str:
    from huggingface_hub import metadata_load, try_to_load_from_cache

    local = local_model(model)
    card = local / CARD if local else try_to_load_from_cache(model, CARD)
    if not isinstance(card, str | Path) or not Path(card).is_file():
        return UNKNOWN
    return str((metadata_load(card) or {}).get("license", UNKNOWN))

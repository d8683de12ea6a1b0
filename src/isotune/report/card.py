"""The model card of an encoder: README.md, as the Hugging Face hub shows it.

What a card says is read from the run folder around the encoder. What is not known there is said to
be unknown. Names of local files and folders are told without their paths.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from isotune.bundled import BUNDLED_MODEL, local_model
from isotune.data import DATASETS
from isotune.encoder.classifier_head import tasks_of
from isotune.encoder.encoder import Encoder
from isotune.encoder.format.modules import FLAGS
from isotune.encoder.format.prompt import fill_mask, split_prompt
from isotune.errors import as_input_error
from isotune.evaluation.results import GeometryResult
from isotune.evaluation.run_results import RunEvaluation
from isotune.files import read_json, read_toml, verify_checksums, write_text
from isotune.report.stages import OPTIONAL
from isotune.report.templates import template
from isotune.report.titles import score_title

CARD = "README.md"
UNKNOWN = "unknown"


def write_card(encoder: Encoder, folder: Path) -> Path:
    """Writes the card into an encoder's folder, with the licence that an earlier card was given."""
    path = folder / CARD
    write_text(path, model_card(encoder, folder, licence=_added_licence(path)))
    return path


def _added_licence(card: Path) -> str:
    """The licence in a card that isotune wrote.

    It is empty if there is none, or if the card is another program's.
    """
    from huggingface_hub import metadata_load

    if not card.exists():
        return ""
    problem = f"{card}: its first lines are no YAML"
    with as_input_error(Exception, problem, "; mend the file, or remove it"):
        metadata = metadata_load(card) or {}
    if "isotune" not in (metadata.get("tags") or ()):
        return ""
    return str(metadata.get("license", ""))


def model_card(
    encoder: Encoder, source: str | Path, *, licence: str = "", onnx: bool = False
) -> str:
    """The text of a model card.

    It is that of the encoder that was loaded from `source`, or with `onnx` of its ONNX folder.
    """
    folder = Path(source)
    run = None
    if folder.name == "encoder" and (folder.parent / "recipe.toml").exists():
        run = _read_run(folder.parent)
    before, after = split_prompt(encoder.prompt, encoder.lowercase)
    is_standard = encoder.pooling.mode in FLAGS
    known_heads = all(head.type_name.startswith("sentence_transformers.") for head in encoder.heads)
    return template("card.md.j2").render(
        name=_title(source, run is not None),
        encoder=encoder,
        tasks=tasks_of(folder),
        run=run,
        onnx=onnx,
        licence=licence,
        before=fill_mask(before, encoder.tokenizer),
        exportable=is_standard,
        after=after,
        metadata=_metadata(run, str(source), licence, onnx),
        needs_isotune=not (is_standard and known_heads),
    )


def _title(source: str | Path, of_run: bool) -> str:
    """The name of a run or of an encoder's folder, or else the encoder's name on the hub."""
    folder = Path(source)
    if not folder.exists():
        return str(source)
    if of_run:
        return folder.resolve().parent.name
    return folder.resolve().name


def _metadata(run: Mapping[str, Any] | None, source: str, licence: str, onnx: bool) -> str:
    """The YAML at the head of a card, with the names of models and datasets that are on the hub."""
    from huggingface_hub import ModelCardData

    data = ModelCardData(
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=["sentence-similarity", "feature-extraction", "isotune"],
    )
    if onnx:
        data.library_name = "onnx"
    if licence:
        data.license = licence
    model = source
    if run:
        model = run["model"]
        datasets = _hub_datasets(run)
        if datasets:
            data.datasets = datasets
    if "/" in model and local_model(model) is None:
        data.base_model = model
    return data.to_yaml()


def _hub_datasets(run: Mapping[str, Any]) -> list[str]:
    """The names of the hub's datasets that a run was trained on."""
    datasets = set()
    for row in run["data"]:
        name = row["source"].removeprefix("hub:").partition(":")[0]
        if "/" in name:
            datasets.add(name)
    return sorted(datasets)


def _read_run(folder: Path) -> dict[str, Any]:
    """What a card says of a run."""
    verify_checksums(folder, missing_ok=OPTIONAL)
    recipe = read_toml("recipe", folder / "recipe.toml", {})
    model = str(recipe.get("model", BUNDLED_MODEL))
    local = local_model(model)
    environment = read_json(folder / "environment.json", missing_ok=True)
    run: dict[str, Any] = {
        "isotune": environment.get("isotune", UNKNOWN),
        "model": local.name if local else model,
        "model_licence": _model_licence(model),
        "kept_start": False,
        "verdict": None,
        "methods": [stage["method"] for stage in recipe["stages"]],
        "scores": [],
        "data": list(_data(read_json(folder / "data.json", missing_ok=True))),
        "recipe": tomli_w.dumps(_without_paths(recipe)).strip(),
    }
    path = folder / "evaluation.json"
    if path.exists():
        evaluation = RunEvaluation.read(path)
        run["kept_start"] = evaluation.selected_step == 0
        run["verdict"] = evaluation.verdict
        run["scores"] = list(_scores(evaluation))
    return run


def _scores(evaluation: RunEvaluation) -> Iterator[tuple[str, float, float]]:
    """The tasks of a run, with their scores x 100 before and after.

    Geometry does not say which encoder is better.
    """
    before = evaluation.before.scores()
    after = evaluation.after.scores()
    measures: set[str] = set()
    for task in evaluation.after.tasks:
        if isinstance(task, GeometryResult):
            measures.update(task.scores())
    for name, score in before.items():
        if name not in measures:
            title = f"{score_title(name)}{evaluation.measure_of(name)}"
            yield title, 100 * score, 100 * after[name]


def _data(feeds: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The facts of each text that was trained on, once, with its licences."""
    # Two stages may read one text.
    texts = {facts["sha256"]: facts for facts in feeds.values() if "sha256" in facts}
    for facts in texts.values():
        names = []
        licences = []
        for source in facts["sources"]:
            names.append(_source_name(source))
            licences += _licences(source)
        yield {
            "source": ", ".join(names) or "rows from Python",
            "rows": facts["rows"],
            "sha256": facts["sha256"],
            "licence": "; ".join(dict.fromkeys(licences)) or UNKNOWN,
        }


def _without_paths(value: Any) -> Any:
    """A value of a recipe, with the names of files and folders in place of their paths."""
    match value:
        case dict():
            return {key: _without_paths(item) for key, item in value.items()}
        case list():
            return [_without_paths(item) for item in value]
        case str() if len(Path(value).parts) > 1 and _is_here(Path(value)):
            return Path(value).name
    return value


def _is_here(path: Path) -> bool:
    """Whether a path, which may be a name of the hub, is one of this machine."""
    return path.is_absolute() or path.exists()


def _source_name(source: str) -> str:
    """The name of a source in a card: that of a dataset, or a file's without its path."""
    name = source.partition(":")[0]
    if name == "hub" or name in DATASETS:
        return source
    return Path(source).name


def _licences(source: str) -> list[str]:
    """The licences of a source, those of all members of a union."""
    name, _, rest = source.partition(":")
    if name == "hub":
        dataset = rest.partition(":")[0]
        return [f"as https://huggingface.co/datasets/{dataset} says"]
    if name not in DATASETS:
        return [UNKNOWN]
    return [DATASETS[member].licence for member in DATASETS[name].union or (name,)]


def _model_licence(model: str) -> str:
    """The licence that the model's card names, if the card is on this machine."""
    from huggingface_hub import metadata_load, try_to_load_from_cache

    local = local_model(model)
    card: object = try_to_load_from_cache(model, CARD) if local is None else local / CARD
    if not isinstance(card, str | Path) or not Path(card).is_file():
        return UNKNOWN
    metadata = metadata_load(card) or {}
    return str(metadata.get("license", UNKNOWN))

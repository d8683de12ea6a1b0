"""What a run will do: every decision before its first step, and the log's first lines.

`choose_recipe` is for a new run. `make_plan` is for a resumed run too: it tries the method and the
data of every stage to come on a copy of the encoder, so that mistakes fail at once.
"""

import os
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from isotune.bundled import BUNDLED_MODEL, MODEL_FOLDER, local_model
from isotune.data import ScoredPairs, Sentence
from isotune.data.derived import RowQuery
from isotune.data.held_out import ONE_OF
from isotune.data.rows import no_column
from isotune.data.sources import read_records
from isotune.encoder.encoder import Encoder
from isotune.encoder.format.pretrained import local_folder
from isotune.encoder.pooling import Pooling, change_pooling
from isotune.engine.objectives import build_objectives
from isotune.engine.workers import Workers
from isotune.errors import InputError
from isotune.evaluation import DevTask, Task, load_dev, load_tasks, with_whole_path
from isotune.evaluation.agreement import FEWEST, MOST
from isotune.evaluation.tasks import GENERAL_TASK
from isotune.evaluation.text_changes import sample_sentences
from isotune.kernels.device import default_device
from isotune.kernels.precision import has_bfloat16, warn_of_bfloat16
from isotune.methods import OPTIONS
from isotune.methods.method import Method
from isotune.methods.options import ClassifierOptions, Use
from isotune.recipes import (
    MODEL_KINDS,
    Recipe,
    Stage,
    TrainingOptions,
    recipe_of_model,
    resolve,
)
from isotune.training import run_folder
from isotune.training.labels import LabelledData, read_labelled, with_labels
from isotune.training.outcome import ComparedOn
from isotune.training.recorder import Recorder, RunContext
from isotune.training.request import Request
from isotune.training.run_data import DividedRows, RunData, is_file
from isotune.training.run_folder import START, Progress
from isotune.training.selection import is_chosen_by_dev

PAPERS_WIDTH = 768
"""The width of BERT-base, for which the papers give rates."""

NEW_LAYERS_THRESHOLD = 1e-4
"""From this learning rate on, a paper's rate is for new layers alone, such as a flow."""


@dataclass(frozen=True)
class ChosenRecipe:
    """The recipe of a new run."""

    recipe: Recipe

    chosen_by_model: str
    """The name of the recipe where the model decides it; empty if the user has chosen a recipe."""

    labelled: LabelledData | None
    """The labelled rows; None if no stage learns from the user's labels."""


def choose_recipe(request: Request, workers: Workers) -> ChosenRecipe:
    """The recipe of a new run, with every option, this machine's precision, and whole paths."""
    choice = request.choice
    chosen_by_model = ""
    if not choice.recipe and not choice.method:
        teachers = request.options.get("teachers")
        chosen_by_model = workers.on_rank_zero(
            recipe_of_model, request.model, choice.pairs, teachers
        )
    recipe = resolve(
        request.sources if request.rows is None else None,
        choice.recipe or chosen_by_model,
        choice.method,
        request.options,
        pairs=choice.pairs,
        with_stand_ins=choice.stand_ins,
    )
    if request.rows is None:
        _check_columns(recipe)
    labelled = read_labelled(recipe, request.rows)
    if labelled:
        recipe = with_labels(recipe, labelled)
    precision = workers.on_rank_zero(_faster_precision)
    whole = _with_whole_paths(recipe.with_precision(precision))
    return ChosenRecipe(whole, chosen_by_model, labelled)


def _check_columns(recipe: Recipe) -> None:
    """Refuses columns that a file lacks, before anything is printed or made."""
    for source in filter(is_file, recipe.data):
        for file in read_records(source, RowQuery(Sentence)):
            for _, record in islice(file.records, 1):
                missing = [column for column in recipe.columns.values() if column not in record]
                if missing:
                    raise no_column(file.place, missing[0], list(record))


def _faster_precision() -> str:
    if has_bfloat16(default_device()):
        return "bfloat16"
    return "float32"


def _with_whole_paths(recipe: Recipe) -> Recipe:
    """The recipe with whole paths of its files, so that any working folder can resume the run."""
    table = recipe.with_sources(lambda source: [_whole_source(source)]).table()
    table["dev"] = with_whole_path(recipe.dev)
    table["tasks"] = [with_whole_path(task) for task in recipe.tasks]
    if recipe.model:
        table["model"] = _whole_model(recipe.model)
    for stage in table["stages"]:
        names_of_models = OPTIONS[stage["method"]].fields_for(Use.LOAD)
        for key in stage.keys() & names_of_models:
            stage[key] = [_whole_model(name) for name in stage[key]]
    return Recipe.from_table(table)


def _whole_source(source: str) -> str:
    if is_file(source):
        return os.path.abspath(source)
    return source


def _whole_model(name: str) -> str:
    folder = local_model(name)
    if folder is None or folder == MODEL_FOLDER:
        return name
    return os.path.abspath(folder)


@dataclass(frozen=True)
class EvaluationData:
    """What a run is scored on."""

    dev: DevTask | None
    """What chooses the step, unless labelled rows do."""

    tasks: Sequence[Task]
    """What the start and the kept encoder are compared on."""

    unpublished: str
    """Why the tasks are not those of the recipe's published score.

    Empty if they are, or there is no such score.
    """

    @property
    def tested(self) -> list[ScoredPairs]:
        """The rows of the tasks that have rows."""
        return [task.pairs for task in self.tasks if isinstance(task, DevTask)]

    @property
    def pairs(self) -> list[ScoredPairs]:
        """The rows of the tasks and the dev data."""
        pairs = self.tested
        if self.dev:
            pairs.append(self.dev.pairs)
        return pairs

    @property
    def dev_is_tested(self) -> bool:
        """Whether the dev data are those of a task too."""
        if self.dev is None:
            return False
        dev = (self.dev.pairs.sentence1, self.dev.pairs.sentence2)
        return any(dev == (pairs.sentence1, pairs.sentence2) for pairs in self.tested)


def load_evaluation_data(recipe: Recipe, divided: DividedRows | None) -> EvaluationData:
    """Reads the dev data and the tasks of a run, of which rows set apart are the first."""
    dev = None
    if recipe.dev_task:
        dev = load_dev(recipe.dev_task)
    if divided:
        tasks = load_tasks(recipe.tasks) if recipe.tasks else []
        return EvaluationData(dev, [divided.task(), *tasks], "")
    unpublished = ""
    if recipe.published_on and not recipe.tasks:
        try:
            return EvaluationData(dev, load_tasks(recipe.published_on), "")
        except InputError as error:
            unpublished = (
                f"not evaluated as published, on {', '.join(recipe.published_on)}: {error}"
            )
    names = recipe.tasks
    bounded = any(stage.training.most_forgotten is not None for stage in recipe.stages)
    if names and bounded and GENERAL_TASK not in names:
        # The general pairs show what the run may have forgotten.
        names = (*names, GENERAL_TASK)
    return EvaluationData(dev, load_tasks(names), unpublished)


@dataclass(frozen=True)
class Plan:
    """Every decision before the first step of a run."""

    recipe: Recipe
    """What the stages do."""

    run_data: RunData
    """What they read."""

    evaluation_data: EvaluationData
    """What the run is scored on."""

    start_pooling: str
    """How the start is pooled, where the recipe says how; else empty."""

    pooled: str
    """How the start is pooled otherwise than its folder says; empty if it is not."""

    disk: str
    """What the run needs of the disk."""

    by_rows: bool
    """Whether labelled rows choose the step, in place of the dev data."""

    dev_chooses: bool
    """Whether the dev data, if there are any, choose the step of a stage."""

    predicts: bool
    """Whether the encoder is tuned to predict labels or scores of rows."""

    tunes: bool
    """Whether a stage tunes the encoder."""

    reshaped: bool
    """Whether a stage replaces the prompt, the pooling or the heads of the encoder.

    Then the encoder differs from the start at step 0 of that stage.
    """

    at_a_glance: Sequence[str]
    """What the log says of the first rows of the files; empty in a resumed run."""

    sentences: Sequence[str]
    """Sentences of the text for the comparison at the end.

    Empty if the text can't be read again.
    """

    held_out: Sequence[str]
    """Sentences that the run doesn't train on, to compare the encoders with the teachers.

    Empty without teachers, or if there are too few.
    """

    @cached_property
    def compared_on(self) -> ComparedOn:
        """What the start and the kept encoder are compared on."""
        dev = None if self.by_rows else self.evaluation_data.dev
        return ComparedOn(
            tasks=self.evaluation_data.tasks,
            dev=dev,
            dev_chooses=self.dev_chooses,
            by_rows=self.by_rows,
            sentences=self.sentences,
            teachers=self.recipe.teachers,
            held_out=self.held_out,
            pooled=self.pooled,
            tunes=self.tunes,
            reshaped=self.reshaped,
        )

    def tell(self, recorder: Recorder) -> None:
        """Writes what the log says of the plan."""
        for line in self.at_a_glance:
            recorder.say(line)
        if self.run_data.divided:
            for line in self.run_data.divided.lines():
                recorder.say(line)
        if self.evaluation_data.unpublished:
            recorder.say(self.evaluation_data.unpublished)
        if self.dev_chooses and self.evaluation_data.dev_is_tested:
            recorder.warn(
                0, "the dev data are test data too: they chose the step, so its score is too high"
            )
        if self.start_pooling:
            recorder.say(f"start: {self.pooled or self.start_pooling}")
        recorder.say(f"disk: {self.disk}")
        if self.recipe.teachers:
            recorder.say(self._told_held_out())
        if isinstance(self.run_data.divided, LabelledData) and not self.recipe.dev_task:
            recorder.say(self._told_labels())
        elif not self.by_rows:
            recorder.say(f"dev data: {self.recipe.dev}{self._words_of_kept_step()}")

    def _told_held_out(self) -> str:
        """What the log says of the sentences that are held out."""
        text = f"held out of the training: one of {ONE_OF} sentences, and all of its copies"
        if not self.held_out:
            return (
                f"{text}; too few, or read only once: agreement with the teachers is not measured"
            )
        return f"{text}; on {len(self.held_out)} of them the encoder is compared with its teachers"

    def _told_labels(self) -> str:
        """Which encoder a run on labels keeps that has no dev data."""
        if not self.tunes:
            return "the encoder stays as it is, and a classifier learns to read its vectors"
        if isinstance(self.recipe.stages[-1].options, ClassifierOptions):
            return (
                "the last step is kept if it predicts the labels of the rows set apart better than "
                "the start does, by more than chance; else the start is kept"
            )
        return _kept_without_dev(self.recipe.stages[-1].training)

    def _words_of_kept_step(self) -> str:
        """Which step is kept without dev data; empty with them."""
        if self.recipe.dev_task:
            return ""
        kept = [_kept_without_dev(stage.training) for stage in self.recipe.stages]
        if len(set(kept)) == 1:
            return f"; {kept[0]}"
        of_stages = [f"in stage {number}, {words}" for number, words in enumerate(kept, 1)]
        return f"; {'; '.join(of_stages)}"


def _kept_without_dev(training: TrainingOptions) -> str:
    """Which encoder a stage keeps without dev data."""
    bound = training.most_forgotten
    if training.interpolations is None:
        if bound is None:
            return "the last step, not the best, is kept"
        return f"the last step that loses at most {bound:g} on general pairs is kept"
    share, *_ = training.interpolations
    kept = f"the encoder at {share:g} of the way from start to end is kept"
    if bound is None:
        return kept
    return f"{kept}, or a gentler one if it loses more than {bound:g} on general pairs"


def tell_recipe(recipe: Recipe, chosen_by_model: str, model: str, run: RunContext) -> None:
    """Writes what the log says before anything is loaded."""
    recorder = run.recorder
    if chosen_by_model:
        recorder.say(f"recipe: {chosen_by_model}; the model is {MODEL_KINDS[chosen_by_model]}")
    recorder.say(f"run: {run.folder}")
    bundled = ""
    if model == BUNDLED_MODEL:
        bundled = ", the bundled one (--model takes any other)"
    recorder.say(f"model: {model}{bundled}")
    precisions = dict.fromkeys(stage.training.precision for stage in recipe.stages)
    recorder.say(f"precision: {', '.join(precisions)}")
    if "bfloat16" in precisions:
        warning = warn_of_bfloat16(default_device())
        if warning:
            recorder.warn(0, warning)


def start_of(recipe: Recipe, folder: Path) -> str:
    """The name of the model that the run in a folder starts from."""
    copy = folder / START
    if copy.exists():
        # The run's folder may have been moved since the recipe was written.
        return str(copy)
    return recipe.model or BUNDLED_MODEL


def make_plan(
    run_data: RunData, evaluation_data: EvaluationData, progress: Progress, encoder: Encoder
) -> Plan:
    """Decides everything before the first step.

    The encoder is the start. It becomes the encoder of the current stage: it gets the layers of the
    stages that are over.

    Raises:
        InputError: something that a stage to come needs is missing, or doesn't fit.
    """
    recipe = run_data.recipe
    start_pooling = ""
    pooled = ""
    if recipe.encoder.pooling or recipe.encoder.layers:
        used = _described(encoder.pooling, encoder)
        own = _described(encoder.saved_pooling, encoder)
        start_pooling = f"pooled by {used}"
        if used != own:
            pooled = f"pooled by {used}, where isotune evaluate pools it by {own}"
    interpolates = any(stage.training.interpolations is not None for stage in recipe.stages)
    disk = run_folder.check_space(run_data.run.folder, encoder, keeps_start=interpolates)
    methods = _attach_past_stages(recipe, progress, encoder)
    methods += _try_stages(recipe.stages[progress.stage :], run_data, deepcopy(encoder))
    last = methods[-1]
    at_a_glance: Sequence[str] = ()
    if progress == Progress():
        at_a_glance = tuple(run_data.at_a_glance(methods[0]))
    return Plan(
        recipe=recipe,
        run_data=run_data,
        evaluation_data=evaluation_data,
        start_pooling=start_pooling,
        pooled=pooled,
        disk=disk,
        by_rows=bool(last.scored("dev")),
        dev_chooses=any(is_chosen_by_dev(method) for method in methods),
        predicts=type(last).predict is not Method.predict or not last.tunes,
        tunes=any(method.tunes for method in methods),
        reshaped=any(method.adds.reshapes for method in methods),
        at_a_glance=at_a_glance,
        sentences=sample_sentences(run_data.sentences(methods[0]), recipe.seed),
        held_out=_held_out(run_data, methods[0]),
    )


def _held_out(run_data: RunData, method: Method) -> Sequence[str]:
    """The held-out sentences that are compared; none if they are too few."""
    sentences = sample_sentences(run_data.held_out(method), run_data.recipe.seed, MOST)
    if len(sentences) < FEWEST:
        return ()
    return sentences


def _described(pooling: Pooling, encoder: Encoder) -> str:
    layers = [*pooling.resolve(encoder.backbone.layers)]
    return f"{pooling.mode} of layers {layers}"


def _attach_past_stages(recipe: Recipe, progress: Progress, encoder: Encoder) -> list[Method]:
    """Adds to the encoder what the stages that are over have added, without their weights.

    Gives their methods.
    """
    methods = []
    for number, stage in enumerate(recipe.stages[: progress.stage]):
        objectives = build_objectives(stage, encoder)
        objectives.attach(encoder)
        if number in progress.dropped:
            objectives.method.adds.drop_from(encoder)
        methods.append(objectives.method)
    return methods


def _try_stages(stages: Sequence[Stage], run_data: RunData, encoder: Encoder) -> list[Method]:
    """Tries method and data of the stages to come on a copy of the encoder; gives their methods."""
    methods = []
    for stage in stages:
        # A method may load such a model late, when it needs the model.
        for model in stage.options.named(Use.LOAD):
            local_folder(model)
        objectives = build_objectives(stage, encoder)
        objectives.attach(encoder)
        run_data.try_stage(stage, objectives.method, encoder)
        _check_interpolations(stage, objectives.method)
        blocks = encoder.backbone.layers
        dev_layers = stage.training.as_released.dev_layers
        dev_pooling = change_pooling(encoder.pooling, None, dev_layers, blocks)
        # This raises the error for a layer that the model doesn't have.
        dev_pooling.numbered(blocks)
        methods.append(objectives.method)
    for option in ("model_dropout", "attention_dropout"):
        _check_dropout(option, stages, methods)
    return methods


def _check_interpolations(stage: Stage, method: Method) -> None:
    """Refuses candidates between start and end where the end has layers that the start lacks."""
    if stage.training.interpolations is None:
        return
    reason = ""
    if method.adds.heads:
        reason = "adds layers to the encoder, which its start lacks"
    if method.scored("dev"):
        reason = "predicts by layers that are no part of the encoder"
    if reason:
        raise InputError(
            f"interpolations: method {stage.method} {reason}; leave interpolations out"
        )


def _check_dropout(option: str, stages: Sequence[Stage], methods: Sequence[Method]) -> None:
    """Refuses a rate of dropout where no stage that asks for dropout draws any."""
    asking = []
    for stage, method in zip(stages, methods, strict=True):
        if getattr(stage.training, option):
            asking.append((stage, method))
    if not asking or not all(method.cached for _, method in asking):
        return
    stage, _ = asking[0]
    instead = ""
    if hasattr(stage.options, "cached"):
        instead = ", or compute them in every step (cached false)"
    raise InputError(
        f"{option}: method {stage.method} computes the vectors of its text once, without dropout; "
        f"leave {option} at 0{instead}"
    )


def lines_of_stage(recipe: Recipe, number: int, method: Method, encoder: Encoder) -> Iterator[str]:
    """What the log says at the beginning of stage `number`, counted from 0."""
    training = recipe.stages[number].training
    width = encoder.backbone.dimension
    fine_tuned = training.learning_rate < NEW_LAYERS_THRESHOLD and training.rate_width is None
    if recipe.published_on and fine_tuned and width < PAPERS_WIDTH:
        scaled = training.learning_rate * PAPERS_WIDTH / width
        yield (
            f"stage {number + 1}: the paper's learning rate {training.learning_rate:g} is for "
            f"models of width {PAPERS_WIDTH}; rate_width {PAPERS_WIDTH} scales it to {scaled:.2g} "
            "for this one"
        )
    if encoder.device.type != "cpu" and not encoder.backbone.padded:
        flash = encoder.backbone.flashes(
            training.precision, training.model_dropout, training.attention_dropout
        )
        kind = "flash" if flash else "padded"
        yield f"stage {number + 1} computes attention by {kind} attention"
    if encoder.language_head and encoder.language_head.fresh:
        fresh = ", ".join(encoder.language_head.fresh)
        yield f"the model has no whole masked-LM head; new, with random weights: {fresh}"
    scores: list[str] = []
    for feed in method.scored("dev").values():
        scores += feed.metrics
    if scores:
        yield (
            f"stage {number + 1} is scored on labelled rows, in place of the dev data: "
            f"{', '.join(scores)}"
        )

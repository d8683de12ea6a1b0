"""A run, from sources to report: what `isotune train` and `isotune.train` do.

Everything is written into one folder, in an order that leaves something whole at every moment: first the recipe, then
metrics and checkpoints, then the kept encoder, and last its evaluation and the report. `train` opens the folder.
`_Run.run` reads top to bottom: prepare, train the stages (`stage.py`), finish (`outcome.py`).
"""

import glob
import os
import shlex
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from functools import cache, partial
from inspect import signature
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from torch import Tensor

from isotune.bundled import BUNDLED_MODEL, MODEL_FOLDER, local_model
from isotune.data import DATASETS
from isotune.data.draws import derive_seed
from isotune.data.sources import FromPython, checked_rows, items_of
from isotune.encoder.encoder import Encoder
from isotune.encoder.pooling import change_pooling
from isotune.engine.objectives import build_objectives
from isotune.engine.step import Parts, TrainingFailed
from isotune.engine.workers import Workers, was_restarted, workers_of_run
from isotune.errors import InputError
from isotune.evaluation import (
    DevTask,
    RunEvaluation,
    Task,
    TaskRows,
    load_dev,
    load_tasks,
    with_whole_path,
)
from isotune.evaluation.results import UNJUDGED
from isotune.evaluation.tasks import GENERAL_PAIRS, GENERAL_TASK
from isotune.evaluation.text_changes import sample_sentences
from isotune.files import CHECKSUMS, inside, remove, verify_checksums
from isotune.kernels.device import DEVICE, default_device
from isotune.kernels.precision import has_bfloat16, warn_of_bfloat16
from isotune.methods import OPTIONS
from isotune.methods.method import Method
from isotune.methods.options import Use
from isotune.plugins import plugin_words
from isotune.recipes import MODEL_KINDS, Recipe, Stage, recipe_of_model, resolve
from isotune.recipes.keywords import with_keywords
from isotune.report import write_card, write_report
from isotune.training import run_folder
from isotune.training.corpora import Corpora
from isotune.training.outcome import Result, Scored, compare_with_start, measurements, save_kept
from isotune.training.recorder import Recorder, RunContext, Watch
from isotune.training.run_folder import Progress
from isotune.training.selection import choose_scorer, score_kept
from isotune.training.signals import StopSignal
from isotune.training.stage import StageTraining

if TYPE_CHECKING:
    from isotune.training.options import Options

PAPERS_WIDTH = 768  # of BERT-base, for which the papers give rates
HEADS_RATE = 1e-4  # from which on a paper's rate is for new layers alone, such as a flow
FINISHED = (
    "sentence-transformers/all-MiniLM-L6-v2"  # what the README advises most people to start from
)
START = "start"  # the folder, in the run's, of a start that lies nowhere else


def train(
    sources: str | Path | Sequence[str | Path] = (),
    *,
    out: str | Path,
    rows: Iterable[FromPython] | None = None,
    recipe: str | Path | None = None,
    method: str | None = None,
    pairs: Sequence[str] | None = None,
    stand_ins: bool = False,
    resume: bool = False,
    quiet: bool = False,
    watch: Watch | None = None,
    **options: Unpack["Options"],
) -> Result:
    """Trains a sentence encoder and compares it with the start.

    Args:
        sources: files, patterns, named datasets, "hub:owner/name" or "-"; see `data.read`.
        out: the run folder to make.
        rows: sentences, rows of the method's type, dicts or a table (pandas, polars, Arrow, `datasets`) in place of
            sources; `columns` names the columns. A resumed run needs the same rows again.
        recipe: a recipe's name or TOML file.
        method: a method's name; the method's defaults then replace a recipe. With neither, the recipe is "adapt"
            for a finished encoder, and "default" for any other model.
        pairs: the columns of two texts that belong together, such as ("question", "answer"). Without
            recipe and method, the recipe is "adapt-pairs" for a finished encoder, and "pairs" for any other model.
        stand_ins: take data that stand in for the recipe's published data where these are only on the hub.
        resume: continue the run in `out`. All options stay as they were.
        quiet: write nothing to standard error.
        watch: is called with every record that goes to metrics.jsonl, a dict; an exception ends the run, which can be
            resumed. Only the first of several processes calls it.
        options: values that differ from the recipe's, by the names of the flags of `isotune train`. `model` may also be
            an `Encoder` or a `SentenceTransformer`, and `dev` and each of `tasks` may be `TaskRows`; the run folder
            gets a copy.

    Returns:
        A `Result`: the run folder, the verdict, the kept encoder, the report and the scores.

    Raises:
        InputError: the input can't be used. Nothing that existed before is lost.
        isotune.training.TrainingFailed: loss, gradient or vectors are not finite. It names the encoder kept so far.
    """
    if not isinstance(out, str | Path):
        raise InputError(f"out: the folder of the run is needed, not {out!r:.80}")
    folder = Path(out)
    start = None if isinstance(options.get("model"), str | Path | None) else options["model"]
    if start is not None:
        if not hasattr(start, "save"):
            raise InputError(f"model: a name, or an encoder, is needed, not {start!r:.80}")
        options["model"] = str(folder / START)
    copies = (
        [] if start is None else [partial(start.save, str(folder / START))]
    )  # into the folder of a new run

    def in_folder(task: str | TaskRows, part: str) -> str:
        if not isinstance(task, TaskRows):
            return task
        copies.append(partial(task.save, folder / part))
        return task.name_in(folder / part)

    if "dev" in options:
        options["dev"] = in_folder(options["dev"], "dev")
    if not isinstance(tasks := options.get("tasks") or "", str):
        options["tasks"] = [
            in_folder(task, "tasks") for task in ([tasks] if isinstance(tasks, TaskRows) else tasks)
        ]
    given = [sources] if isinstance(sources, str | Path) else sources or ()
    if not isinstance(given, Sequence) or not all(
        isinstance(source, str | Path) for source in given
    ):
        raise InputError(
            f"sources: names of files or datasets are needed, not {given!r:.80}; give rows as rows=..."
        )
    names = [str(source) for source in given]
    if rows is not None:  # they are read for each stage
        rows = list(items_of(rows)) if hasattr(checked_rows(rows), "__next__") else rows
    if names and rows is not None:
        raise InputError("sources and rows are both given; give one of them")
    if resume and (recipe or method or pairs or options or names or stand_ins):
        raise InputError(
            "resume continues a run as it was started; leave out the sources and all options"
        )
    if was_restarted() and run_folder.is_finished(
        folder
    ):  # another process was killed at the very end
        verify_checksums(folder)
        return Result(
            folder, folder / "report.html", RunEvaluation.read(folder / "evaluation.json"), None
        )
    resume = resume or (was_restarted() and (folder / "recipe.toml").exists())
    with workers_of_run() as workers:
        new = fitting = None
        if not (recipe or method or resume):
            model = options.get("model") if start is None else start
            fitting = workers.by_leader(partial(recipe_of_model, model, pairs))
        if not resume:
            named = names if rows is None else None
            new = resolve(
                named, recipe or fitting, method, options, pairs=pairs, with_stand_ins=stand_ins
            )
            faster = workers.by_leader(lambda: has_bfloat16(default_device()))
            new = _with_whole_paths(new.with_precision("bfloat16" if faster else "float32"))
        with _opened(folder, new, workers) as (plan, tensors, progress):
            if resume and rows is not None and plan.data:
                raise InputError(f"{folder}: this run was started with sources; leave out the rows")
            for copy in () if resume else copies:
                workers.by_leader(copy)
            leads = workers.leads
            shown = (quiet, watch) if leads else (True, None)
            with (
                Recorder(folder if leads else None, progress.metrics_bytes, *shown) as recorder,
                workers.one_error(),  # before the first process removes the folder of a run that has failed
            ):
                stop = StopSignal(tell=leads and not quiet)
                if fitting:
                    recorder.say(f"recipe: {fitting}; the model is {MODEL_KINDS[fitting]}")
                context = RunContext(
                    folder, recorder, stop, plan.seed, workers, time.monotonic() - progress.seconds
                )
                return _Run(plan, rows, context, progress).run(tensors)


vars(train)["__signature__"] = with_keywords(signature(train))


@contextmanager
def _opened(
    folder: Path, new: Recipe | None, workers: Workers
) -> Iterator[tuple[Recipe, Mapping[str, Tensor], Progress]]:
    with ExitStack() as stack:
        workers.by_leader(
            partial(stack.enter_context, run_folder.held(folder, new=new is not None))
        )
        if new is None:
            recipe = run_folder.started_recipe(folder)
            if run_folder.is_finished(folder):
                run_folder.remove_checkpoints(
                    folder
                )  # of a process that was killed before it did so
                raise InputError(
                    f"{folder}: this run is finished; its report is {folder / 'report.html'}"
                )
            tensors, progress = run_folder.last_checkpoint(folder)
            run_folder.remove_former_best(
                folder, progress.best_file
            )  # which a process may not have done any more
            remove(folder / CHECKSUMS)  # of records that are written again
            yield recipe, tensors, progress
            return
        try:
            workers.by_leader(partial(run_folder.create, folder, new))
            yield new, {}, Progress()
        except (InputError, OSError):
            if workers.leads and not (folder / run_folder.LAST).exists():
                # Nothing has been trained, and the folder was empty or missing. A mount point stays.
                shutil.rmtree(folder, ignore_errors=True)
            raise


def _with_whole_paths(recipe: Recipe) -> Recipe:
    """The recipe with whole paths of the files that it names, so that the run can be resumed from any folder."""

    def whole(source: str) -> str:
        is_name = source.partition(":")[0] in {"-", "hub", *DATASETS}
        return (
            source
            if is_name or not (os.path.exists(source) or glob.has_magic(source))
            else os.path.abspath(source)
        )

    def whole_model(name: str) -> str:
        model = local_model(name)
        return name if model in (None, MODEL_FOLDER) else os.path.abspath(model)

    table = recipe.with_sources(lambda source: [whole(source)]).table()
    table |= {
        "dev": with_whole_path(recipe.dev),
        "tasks": [with_whole_path(task) for task in recipe.tasks],
    }
    if recipe.model:
        table["model"] = whole_model(recipe.model)
    for stage in table["stages"]:
        for key in stage.keys() & OPTIONS[stage["method"]].fields_for(Use.LOAD):
            stage[key] = [whole_model(name) for name in stage[key]]
    return Recipe.from_table(table)


class _Run:
    def __init__(
        self,
        recipe: Recipe,
        rows: Iterable[FromPython] | None,
        context: RunContext,
        progress: Progress,
    ) -> None:
        self.recipe, self.rows, self.context, self.progress = recipe, rows, context, progress
        self.folder, self.recorder = context.folder, context.recorder
        start = context.folder / START  # wherever the run's folder lies now
        self.model = str(start) if start.exists() else recipe.model or BUNDLED_MODEL

    def run(self, tensors: Mapping[str, Tensor]) -> Result:
        self._describe()
        dev = load_dev(self.recipe.dev_task) if self.recipe.dev_task else None
        tasks = self._load_tasks()  # before training, because a name may be wrong
        tested_on = [task.pairs for task in tasks if isinstance(task, DevTask)]
        chosen_on = [dev.pairs] if dev else []
        if any(
            (a.sentence1, a.sentence2) == (b.sentence1, b.sentence2)
            for a in chosen_on
            for b in tested_on
        ):
            self.recorder.warn(
                0, "the dev data are test data too: they chose the step, so its score is too high"
            )
        corpora = Corpora(self.recipe, self.rows, tested_on + chosen_on, self.context)
        corpora.check(self.progress.stage)
        encoder = Encoder.load(self.model, **self.recipe.encoder.model_dump(), precision="float32")
        pooled = ""
        if self.recipe.encoder.pooling or self.recipe.encoder.layers:
            poolings = encoder.pooling, encoder.saved_pooling
            used, own = (
                f"{each.mode} of layers {[*each.resolve(encoder.backbone.layers)]}"
                for each in poolings
            )
            pooled = (
                "" if used == own else f"pooled by {used}, where isotune evaluate pools it by {own}"
            )
            self.recorder.say(f"start: {pooled or f'pooled by {used}'}")
        self.recorder.say(f"disk: {run_folder.check_space(self.folder, encoder)}")
        methods = []  # of all stages
        for number, stage in enumerate(self.recipe.stages[: self.progress.stage]):  # which are over
            objectives = build_objectives(stage, encoder)
            objectives.attach(encoder)
            if number in self.progress.dropped:
                objectives.method.adds.drop_from(encoder)
            methods.append(objectives.method)
        methods += self._try_stages(corpora, deepcopy(encoder))
        reshaped = any(each.adds.reshapes for each in methods)
        by_rows = bool(
            methods[-1].scored("dev")
        )  # which chooses the step, in place of the dev data
        if not by_rows:
            bound = next((stage.training.most_forgotten for stage in self.recipe.stages), None)
            step = (
                "step, not the best,"
                if bound is None
                else f"step that loses at most {bound:g} on general pairs"
            )
            which = "" if self.recipe.dev_task else f"; the last {step} is kept"
            self.recorder.say(f"dev data: {self.recipe.dev}{which}")
        sentences = sample_sentences(corpora.sentences(methods[0]), self.recipe.seed)
        scored_on = Scored(tasks, None if by_rows else dev, by_rows, sentences, pooled, reshaped)
        of_start = partial(measurements, self.model, self.recipe.encoder, scored_on)
        self.measure_start = cache(partial(self.context.workers.by_leader, of_start))
        del methods
        failure = None
        try:
            self._train_stages(corpora, dev, encoder, tensors)
        except TrainingFailed as error:
            if not self.progress.best_file:
                raise TrainingFailed(f"model {self.model}: {error}") from error
            failure = error
            self.progress.ends.append(f"training failed: {error}")
        result = self._finish(encoder, scored_on)
        if failure:
            kept = result.folder / "encoder"
            raise TrainingFailed(
                f"{failure}; {kept} is the encoder of step {self.progress.best_step}", kept
            )
        return result

    def _load_tasks(self) -> list[Task]:
        if self.recipe.published_on and not self.recipe.tasks:
            try:
                return load_tasks(self.recipe.published_on)
            except InputError as error:
                published = ", ".join(self.recipe.published_on)
                self.recorder.say(f"not evaluated as published, on {published}: {error}")
        names = self.recipe.tasks
        if names and any(stage.training.most_forgotten is not None for stage in self.recipe.stages):
            names = tuple(dict.fromkeys([*names, GENERAL_TASK]))  # what the run may have forgotten
        return load_tasks(names)

    def _describe(self) -> None:
        bundled = (
            ", the bundled one (--model takes any other)" if self.model == BUNDLED_MODEL else ""
        )
        self.recorder.say(f"run: {self.folder}")
        self.recorder.say(f"model: {self.model}{bundled}")
        precisions = dict.fromkeys(stage.training.precision for stage in self.recipe.stages)
        self.recorder.say(f"precision: {', '.join(precisions)}")
        if "bfloat16" in precisions and (warning := warn_of_bfloat16(default_device())):
            self.recorder.warn(0, warning)

    def _try_stages(self, corpora: Corpora, encoder: Encoder) -> list[Method]:
        """Tries method and data of every stage to come on a copy of the encoder, so that mistakes fail at once."""
        methods: list[tuple[Stage, Method]] = []
        for stage in self.recipe.stages[self.progress.stage :]:
            objectives = build_objectives(stage, encoder)
            objectives.attach(encoder)
            corpora.try_stage(stage, objectives.method, encoder)
            blocks = encoder.backbone.layers
            change_pooling(
                encoder.pooling, None, stage.training.as_released.dev_layers, blocks
            ).numbered(blocks)
            methods.append((stage, objectives.method))
        for option in ("model_dropout", "attention_dropout"):
            asking = [
                (stage, method) for stage, method in methods if getattr(stage.training, option)
            ]
            if asking and all(method.cached for _, method in asking):
                stage, _ = asking[0]
                instead = (
                    ", or compute them in every step (cached false)"
                    if hasattr(stage.options, "cached")
                    else ""
                )
                raise InputError(
                    f"{option}: method {stage.method} computes the vectors of its text once, without dropout; leave "
                    f"{option} at 0{instead}"
                )
        return [method for _, method in methods]

    def _time_left(self) -> float:
        """The seconds that the time limit leaves for training; says them, and refuses a limit without any."""
        if not self.recipe.time_limit:
            return inf
        begins = not (self.progress.stage or self.progress.step)
        if begins:
            self.recorder.say(
                "the start is scored, to know what the time limit leaves for training"
            )
        limit, end = (
            60 * float(self.recipe.time_limit),
            self.measure_start().seconds,
        )  # as long as the start takes
        spent = time.monotonic() - self.context.begun
        left = limit - spent - end
        if begins:
            text = f"to load and to score the start took {spent:,.0f} s, and to score the result takes {end:,.0f} s"
            if self.context.workers.highest(int(left <= 0)):
                raise InputError(
                    f"time_limit {limit:,.0f} s: too short: {text}; start again with more time"
                )
            self.recorder.say(
                f"time limit {limit:,.0f} s: {text}; {left:,.0f} s are left for training"
            )
        return left

    def _train_stages(
        self, corpora: Corpora, dev: DevTask | None, encoder: Encoder, tensors: Mapping[str, Tensor]
    ) -> None:
        for number in range(self.progress.stage, len(self.recipe.stages)):
            if number > self.progress.stage:
                self.progress = self.progress.next_stage()
            stage = self.recipe.stages[number]
            options = stage.training.for_width(encoder.backbone.dimension)
            objectives = build_objectives(
                stage, encoder, derive_seed(self.recipe.seed, "method", number)
            )
            objectives.attach(encoder)
            self._describe_stage(number, objectives.method, encoder)
            data = corpora.load(number, stage, objectives.method, encoder)
            scorer = choose_scorer(options, objectives.method, dev, data.dev, self.context.workers)
            left, stages = self._time_left(), self.recipe.stages[number:]
            end = time.monotonic() + left / max(
                1, sum(each.options.takes_steps for each in stages)
            )  # in equal shares
            training = StageTraining(
                self.context, encoder, objectives, data, scorer, options, self.progress, end
            )
            if tensors:
                run_folder.load_parts(tensors, training.parts, training.fixed)
                tensors = {}
            failure = None
            try:
                training.train()
            except TrainingFailed as error:
                failure = error
            kept = training.kept
            del training  # frees the optimiser's state before the evaluation needs memory
            self._load_best(kept, encoder, objectives.method)
            if failure:
                raise failure
            if not self.progress.done:
                break
            if data.dev:
                score_kept(
                    encoder,
                    objectives.method,
                    data,
                    self.context,
                    self.progress,
                    options.chunk_size,
                )

    def _describe_stage(self, number: int, method: Method, encoder: Encoder) -> None:
        training, width = self.recipe.stages[number].training, encoder.backbone.dimension
        fine_tuned = training.learning_rate < HEADS_RATE and training.rate_width is None
        if self.recipe.published_on and fine_tuned and width < PAPERS_WIDTH:
            scaled = training.learning_rate * PAPERS_WIDTH / width
            self.recorder.say(
                f"stage {number + 1}: the paper's learning rate {training.learning_rate:g} is for models of width "
                f"{PAPERS_WIDTH}; rate_width {PAPERS_WIDTH} scales it to {scaled:.2g} for this one"
            )
        if encoder.device.type != "cpu" and not encoder.backbone.padded:
            rates = training.model_dropout, training.attention_dropout
            flash = encoder.backbone.flashes(training.precision, *rates)
            self.recorder.say(
                f"stage {number + 1} computes attention by {'flash' if flash else 'padded'} attention"
            )
        if encoder.language_head and (fresh := encoder.language_head.fresh):
            self.recorder.say(
                f"the model has no whole masked-LM head; new, with random weights: {', '.join(fresh)}"
            )
        if scores := [name for feed in method.scored("dev").values() for name in feed.metrics]:
            text = f"stage {number + 1} is scored on labelled rows, in place of the dev data: {', '.join(scores)}"
            self.recorder.say(text)

    def _load_best(self, kept: Parts, encoder: Encoder, method: Method) -> None:
        """Loads the weights kept of the stage. Drops new heads and weights of tokens that are worse than none."""
        progress = self.progress
        if not progress.best_file:
            return
        best, _ = run_folder.load_tensors(inside(self.folder, progress.best_file))
        run_folder.load_parts(best, kept)
        if method.adds.heads and progress.best_file == run_folder.best_file(progress.stage, 0):
            self.recorder.say(
                "no step scored better than the encoder without the new layers: the layers are dropped"
            )
            method.adds.drop_from(encoder)
            progress.dropped.append(progress.stage)

    def _say_what_next(self, kept: Path, comparison: RunEvaluation) -> None:
        device = [f"--device={os.environ[DEVICE]}"] if os.environ.get(DEVICE) else []
        encoder, best = (
            shlex.join([name, *plugin_words(), *device])
            for name in (str(kept), str(kept) if comparison.to_use else self.model)
        )
        index = shlex.quote(f"{self.folder}-index")
        data = self.recipe.inputs(self.recipe.stages[0]).data
        if "-" in data or not data:  # nothing that another command can read
            self.recorder.say(
                "in these commands, TEXT stands for a file of your sentences, one a line:"
            )
            data = ("TEXT",)
        text, columns = shlex.join(data), {} if data == ("TEXT",) else self.recipe.columns
        texts = (columns.get(field) for field in ("sentence", "sentence2", "positive"))
        named = next(
            (f" --columns {shlex.quote(f'sentence={column}')}" for column in texts if column), ""
        )
        if comparison.verdict.why == UNJUDGED:
            both, pairs = (
                f"{shlex.quote(self.model)} {encoder}",
                shlex.quote(f"{self.folder}-pairs.tsv"),
            )
            self.recorder.say(
                "which encoder is better for this text? Pairs that you score can tell:"
            )
            self.recorder.say(
                f"  isotune label {shlex.quote(data[0])}{named} --encoders {both} --out {pairs}"
            )
            self.recorder.say(f"  isotune evaluate {both} --tasks {pairs}")
        if self.model == BUNDLED_MODEL:
            own = self.recipe.tasks or {self.recipe.dev} - {"none", GENERAL_PAIRS} or {GENERAL_TASK}
            self.recorder.say(
                f"the bundled model is for trying: {FINISHED}, untouched, has 85.8 on stsb-open. A run can start from "
                "that encoder, and this command compares it with yours:"
            )
            self.recorder.say(f"  isotune evaluate {encoder} {FINISHED} --tasks {shlex.join(own)}")
        self.recorder.say(
            f"search in this text by meaning; to search in other files, name them in place of {text}:"
        )
        self.recorder.say(f"  isotune index {best} {text}{named} --out {index}")
        self.recorder.say(f'  isotune search {index} "YOUR QUESTION" {shlex.join(device)}'.rstrip())
        self.recorder.say(f"  isotune serve {best} --index {index}")

    def _finish(self, encoder: Encoder, scored_on: Scored) -> Result:
        workers, signal = self.context.workers, self.context.stop.received
        kept = workers.by_leader(partial(save_kept, encoder, self.folder))
        if signal and not self.progress.done:
            start = "" if self.progress.best_step else ", the start"
            self.recorder.say(f"encoder so far: {kept}, from step {self.progress.best_step}{start}")
            return Result(self.folder, None, None, signal.name)
        comparison = compare_with_start(
            self.context, self.recipe, self.measure_start, kept, scored_on, self.progress
        )
        workers.by_leader(partial(write_card, encoder, kept))
        report = workers.by_leader(partial(write_report, self.folder))
        if self.progress.done and self.progress.stage == len(self.recipe.stages) - 1:
            workers.by_leader(self.recorder.sync)
            workers.by_leader(partial(run_folder.mark_finished, self.folder))
            workers.by_leader(partial(run_folder.remove_checkpoints, self.folder))
            self._say_what_next(kept, comparison)
            self.recorder.say(comparison.decision)
        return Result(self.folder, report, comparison, None)

"""A run, from sources to report: what `isotune train` and `isotune.train` do.

Everything is written into one folder, in an order that leaves something whole at every moment:
first the recipe, then metrics and checkpoints, then the kept encoder, and last its evaluation and
the report. `_opened` opens the folder. `_Run.run` reads top to bottom: plan (`plan.py`), train the
stages (`stage.py`), finish (`outcome.py`).
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Unpack

from torch import Tensor

from isotune.data.draws import derive_seed
from isotune.data.sources import FromPython
from isotune.encoder.encoder import Encoder
from isotune.engine.objectives import build_objectives
from isotune.engine.step import Parts, TrainingFailed
from isotune.engine.workers import Workers, was_restarted, workers_of_run
from isotune.evaluation import RunEvaluation
from isotune.files import inside, verify_checksums
from isotune.methods.method import Method
from isotune.recipes.keywords import with_keywords
from isotune.report import write_card, write_report
from isotune.training import run_folder
from isotune.training.clock import time_for_training
from isotune.training.outcome import (
    MeasuredEncoder,
    Result,
    compare_with_start,
    measure_encoder,
    save_kept,
)
from isotune.training.plan import (
    Plan,
    choose_recipe,
    lines_of_stage,
    load_evaluation_data,
    make_plan,
    start_of,
    tell_recipe,
)
from isotune.training.recorder import Recorder, RunContext, Watch
from isotune.training.request import (
    Choice,
    Request,
    Sources,
    checked_request,
    refuse_rows_for_sources,
)
from isotune.training.run_data import RunData
from isotune.training.run_folder import OpenedRun
from isotune.training.selection import choose_scorer, score_kept
from isotune.training.signals import StopSignal
from isotune.training.stage import StageTraining
from isotune.training.what_next import EndedRun, what_next

if TYPE_CHECKING:
    from isotune.training.options import Options


# The command line and notebooks show the same arguments, so they are not gathered in an object.
def train(  # noqa: PLR0913
    sources: Sources = (),
    *,
    out: str | Path | None = None,
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
        sources: files, patterns, named datasets, "hub:owner/name" or "-"; see `data.read`. Behind a
            source may stand its share of the rows, as in "wiki.txt*2".
        out: the run folder to make; by default runs/RECIPE-DATE-TIME.
        rows: sentences, rows of the method's type, dicts or a table (pandas, polars, Arrow,
            `datasets`) in place of sources; `columns` names the columns. Resuming needs them again.
        recipe: a recipe's name or TOML file.
        method: a method's name; the method's defaults then replace a recipe. With neither, the
            recipe is "adapt" for a finished encoder, and "default" for any other model; with
            `teachers` it is "adapt-distil" and "distil".
        pairs: the columns of two texts that belong together, such as ("question", "answer").
            Without recipe and method, the recipe is then "adapt-pairs" or "pairs".
        stand_ins: take data that stand in for published data which are only on the hub.
        resume: continue the run in `out`. All options stay as they were.
        quiet: write nothing to standard error.
        watch: is called with every record of metrics.jsonl, a dict, by the first process. An error
            ends the run, which can be resumed from its last checkpoint.
        options: values that differ from the recipe's, by the names of the flags of `isotune train`.
            `model` may also be an `Encoder` or a `SentenceTransformer`, and `dev` and each of
            `tasks` may be `TaskRows`; the run folder gets a copy.

    Returns:
        A `Result`: the run folder, the verdict, the kept encoder, the report and the scores.

    Raises:
        InputError: the input can't be used. Nothing that existed before is lost.
        isotune.training.TrainingFailed: something is not finite. It names the encoder kept so far.
    """
    choice = Choice(recipe, method, pairs, stand_ins, resume)
    request = checked_request(sources, rows, out, choice, options)
    if was_restarted() and run_folder.is_finished(request.folder):
        # Another process was killed at the very end.
        return _finished(request.folder)
    audience = _Audience(quiet, watch)
    with workers_of_run() as workers, _opened(request, audience, workers) as run:
        return run.run()


# `help(train)` shows every option by its name.
vars(train)["__signature__"] = with_keywords(signature(train))


class _Audience(NamedTuple):
    """Who hears of a run."""

    quiet: bool
    watch: Watch | None


@contextmanager
def _opened(request: Request, audience: _Audience, workers: Workers) -> Iterator["_Run"]:
    """Makes or opens the run folder, and its log, for as long as the block runs."""
    folder = request.folder
    was_begun = was_restarted() and (folder / run_folder.RECIPE).exists()
    resumes = request.choice.resume or was_begun
    recipe = None
    chosen_by_model = ""
    if not resumes:
        chosen = choose_recipe(request, workers)
        recipe = chosen.recipe
        chosen_by_model = chosen.chosen_by_model
    with run_folder.opened(folder, recipe, workers) as opened:
        if resumes:
            refuse_rows_for_sources(request, opened.recipe)
        else:
            for save in request.savers:
                workers.on_rank_zero(save)
        # Processes agree on one error before the first of them removes the folder of a failed run.
        with _recorder(opened, folder, audience, workers) as recorder, workers.one_error():
            context = RunContext(
                folder=folder,
                recorder=recorder,
                stop=StopSignal(tell=workers.is_rank_zero and not audience.quiet),
                seed=opened.recipe.seed,
                workers=workers,
                began_at=time.monotonic() - opened.progress.seconds,
            )
            yield _Run(context, opened, request.rows, chosen_by_model)


def _recorder(opened: OpenedRun, folder: Path, audience: _Audience, workers: Workers) -> Recorder:
    """The recorder of a run. The first process alone writes and is heard."""
    if not workers.is_rank_zero:
        return Recorder(None, quiet=True)
    return Recorder(folder, opened.progress.metrics_bytes, audience.quiet, audience.watch)


def _finished(folder: Path) -> Result:
    """The result of a run that is finished."""
    verify_checksums(folder)
    evaluation = RunEvaluation.read(folder / "evaluation.json")
    return Result(folder, folder / "report.html", evaluation, None)


class _Run:
    """A run whose folder is open."""

    def __init__(
        self,
        context: RunContext,
        opened: OpenedRun,
        rows: Iterable[FromPython] | None,
        chosen_by_model: str,
    ) -> None:
        self.context = context
        self.folder = context.folder
        self.recorder = context.recorder
        self.workers = context.workers
        self.recipe = opened.recipe
        self.opened = opened
        self.progress = opened.progress
        self.rows = rows
        self.chosen_by_model = chosen_by_model
        self.model = start_of(opened.recipe, context)

    def run(self) -> Result:
        tell_recipe(self.recipe, self.chosen_by_model, self.model, self.context)
        if self.opened.lost:
            self.recorder.say(self.opened.lost)
        evaluation_data = load_evaluation_data(self.recipe)
        run_data = RunData(self.recipe, self.rows, evaluation_data.pairs, self.context)
        # This is cheaper than to load the start.
        run_data.check(self.progress.stage)
        encoder = self._load_start()
        plan = make_plan(run_data, evaluation_data, self.progress, encoder)
        plan.tell(self.recorder)
        measure_start = self._measure_start(plan)
        failure = None
        try:
            self._train_stages(plan, encoder, measure_start)
        except TrainingFailed as error:
            if not self.progress.best_file:
                raise TrainingFailed(f"model {self.model}: {error}") from error
            failure = error
            self.progress.ends.append(f"training failed: {error}")
        result = self._finish(plan, encoder, measure_start)
        if failure:
            kept_folder = result.folder / "encoder"
            raise TrainingFailed(
                f"{failure}; {kept_folder} is the encoder of {self.progress.place_of_best}",
                kept_folder,
            )
        return result

    def _load_start(self) -> Encoder:
        options = self.recipe.encoder.model_dump()
        return Encoder.load(self.model, **options, precision="float32")

    def _measure_start(self, plan: Plan) -> Callable[[], MeasuredEncoder]:
        """What measures the start once, by the first process for all.

        The end of the run asks for it, or the first stage if a time limit needs the seconds.
        """

        @cache
        def measure_start() -> MeasuredEncoder:
            measure = partial(measure_encoder, self.model, self.recipe.encoder, plan.compared_on)
            return self.workers.on_rank_zero(measure)

        return measure_start

    def _train_stages(
        self, plan: Plan, encoder: Encoder, measure_start: Callable[[], MeasuredEncoder]
    ) -> None:
        """Trains the stages to come, until a signal ends one of them."""
        tensors = self.opened.tensors
        for number in range(self.progress.stage, len(self.recipe.stages)):
            if number > self.progress.stage:
                self.progress = self.progress.next_stage()
            self._train_stage(number, plan, encoder, tensors, measure_start)
            if not self.progress.over:
                return
            tensors = {}

    def _train_stage(
        self,
        number: int,
        plan: Plan,
        encoder: Encoder,
        tensors: Mapping[str, Tensor],
        measure_start: Callable[[], MeasuredEncoder],
    ) -> None:
        """Trains a stage, from the tensors of its checkpoint if it has one; loads what is kept."""
        stage = self.recipe.stages[number]
        options = stage.training.for_width(encoder.backbone.dimension)
        seed = derive_seed(self.recipe.seed, "method", number)
        objectives = build_objectives(stage, encoder, seed)
        objectives.attach(encoder)
        method = objectives.method
        for line in lines_of_stage(self.recipe, number, method, encoder):
            self.recorder.say(line)
        data = plan.run_data.load(number, stage, method, encoder)
        scorer = choose_scorer(options, method, plan.evaluation_data.dev, data.dev, self.workers)
        end = self._end_of_stage(number, measure_start)
        training = StageTraining(
            self.context, encoder, objectives, data, scorer, options, self.progress, end
        )
        if tensors:
            run_folder.load_parts(tensors, training.parts, training.left_out)
        failure = None
        try:
            training.train()
        except TrainingFailed as error:
            failure = error
        kept_parts = training.kept_parts
        # This frees the optimiser's state before the evaluation needs memory.
        del training
        self._load_best(kept_parts, encoder, method)
        if failure:
            raise failure
        if data.dev and self.progress.over:
            score_kept(encoder, method, data, self.context, self.progress, options.chunk_size)

    def _end_of_stage(self, number: int, measure_start: Callable[[], MeasuredEncoder]) -> float:
        """When the stage has to be over.

        The stages with steps have equal shares of the time that is left.
        """
        left = time_for_training(
            self.recipe, self.context, self.progress, lambda: measure_start().seconds
        )
        with_steps = [stage for stage in self.recipe.stages[number:] if stage.options.takes_steps]
        return time.monotonic() + left / max(1, len(with_steps))

    def _load_best(self, kept_parts: Parts, encoder: Encoder, method: Method) -> None:
        """Loads the weights kept of the stage.

        Drops new heads and weights of tokens that are worse than none.
        """
        progress = self.progress
        if not progress.best_file:
            return
        best, _ = run_folder.load_tensors(inside(self.folder, progress.best_file))
        run_folder.load_parts(best, kept_parts)
        if method.adds.heads and progress.best_file == run_folder.best_file(progress.stage, 0):
            self.recorder.say(
                "no step scored better than the encoder without the new layers: "
                "the layers are dropped"
            )
            method.adds.drop_from(encoder)
            progress.dropped.append(progress.stage)

    def _finish(
        self, plan: Plan, encoder: Encoder, measure_start: Callable[[], MeasuredEncoder]
    ) -> Result:
        """Saves the kept encoder, and compares it with the start unless a signal came."""
        progress = self.progress
        signal = self.context.stop.received
        kept_folder = self.workers.on_rank_zero(partial(save_kept, encoder, self.folder))
        if signal and not progress.over:
            self.recorder.say(f"encoder so far: {kept_folder}, from {progress.place_of_best}")
            return Result(self.folder, None, None, signal.name)
        comparison = compare_with_start(
            self.context, self.recipe, measure_start, kept_folder, plan.compared_on, progress
        )
        self.workers.on_rank_zero(partial(write_card, encoder, kept_folder))
        report = self.workers.on_rank_zero(partial(write_report, self.folder))
        # After `TrainingFailed`, the report tells of a run that is not finished.
        if progress.over and progress.stage == len(self.recipe.stages) - 1:
            self._mark_finished()
            ended = EndedRun(
                self.folder, self.model, kept_folder, self.recipe, comparison, plan.predicts
            )
            for line in self.workers.on_rank_zero(lambda: list(what_next(ended))):
                self.recorder.say(line)
            self.recorder.say(comparison.decision)
        return Result(self.folder, report, comparison, None)

    def _mark_finished(self) -> None:
        self.workers.on_rank_zero(self.recorder.sync)
        self.workers.on_rank_zero(partial(run_folder.mark_finished, self.folder))
        self.workers.on_rank_zero(partial(run_folder.remove_checkpoints, self.folder))

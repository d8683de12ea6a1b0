"""A run, from sources to report: what `isotune train` and `isotune.train` do.

Everything is written into one folder, in an order that leaves something whole at every moment:
first the recipe, then metrics and checkpoints, then the kept encoder, and last its evaluation and
the report. `_opened` opens the folder. `_Run.run` reads top to bottom: plan (`plan.py`), train the
stages (`stage.py`), finish (`outcome.py`).
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Unpack

from torch import Tensor

from isotune.data import Pair, Sentence
from isotune.data.draws import derive_seed
from isotune.data.rows import text_fields
from isotune.data.sources import FromPython
from isotune.data.trained_rows import TRAINED_ROWS
from isotune.encoder.classifier_head import ClassifierHead
from isotune.encoder.encoder import Encoder
from isotune.engine.objectives import build_objectives
from isotune.engine.step import Parts, TrainingFailed
from isotune.engine.workers import Workers, was_restarted, workers_of_run
from isotune.evaluation import RunEvaluation
from isotune.files import inside, remove, verify_checksums
from isotune.methods.method import ROWS, Method
from isotune.methods.options import ClassifierOptions
from isotune.recipes.keywords import with_keywords
from isotune.report import write_card, write_report
from isotune.training import run_folder
from isotune.training.apart import read_set_apart
from isotune.training.apart_file import ApartFile, write_rows_apart
from isotune.training.clock import time_for_training
from isotune.training.labels import LabelledData, gain_of_tuning, read_labelled
from isotune.training.outcome import Result, Yardsticks, compare_with_start, save_kept
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
from isotune.training.run_data import DividedRows, RunData
from isotune.training.run_folder import OpenedRun
from isotune.training.selection import calibrated, choose_scorer, score_kept
from isotune.training.signals import StopSignal
from isotune.training.stage import StageTraining
from isotune.training.what_next import EndedRun, write_what_next

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
        sources: files, datasets, "hub:owner/name" or "-" (`data.read`), with shares as "a.txt*2".
        out: the run folder to make; by default runs/RECIPE-DATE-TIME.
        rows: sentences, rows of the method's type, dicts or a table (pandas, polars, Arrow,
            `datasets`) in place of sources; `columns` names the columns. Resuming needs them again.
        recipe: a recipe's name or TOML file.
        method: a method's name, whose defaults replace a recipe. With neither, a finished encoder
            gets "adapt" and a model "default"; with `teachers`, "adapt-distil" and "distil".
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
    labelled = None
    if not resumes:
        chosen = choose_recipe(request, workers)
        recipe = chosen.recipe
        chosen_by_model = chosen.chosen_by_model
        labelled = chosen.labelled
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
            yield _Run(context, opened, request.rows, chosen_by_model, labelled)


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
        labelled: LabelledData | None,
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
        self.labelled = labelled
        self.model = start_of(opened.recipe, context.folder)
        # The classifiers of the kept step, by the names of their feeds.
        self.heads: Mapping[str, ClassifierHead] = {}
        self.apart_file: ApartFile | None = None

    def run(self) -> Result:
        tell_recipe(self.recipe, self.chosen_by_model, self.model, self.context)
        if self.opened.lost:
            self.recorder.say(self.opened.lost)
        divided = self._divided_rows()
        if divided:
            self.apart_file = self.workers.on_rank_zero(
                write_rows_apart, divided, self.recipe, self.folder
            )
        evaluation_data = load_evaluation_data(self.recipe, divided)
        run_data = RunData(self.recipe, self.rows, divided, evaluation_data.pairs, self.context)
        # This is cheaper than to load the start.
        run_data.check(self.progress.stage)
        encoder = self._load_start()
        plan = make_plan(run_data, evaluation_data, self.progress, encoder)
        plan.tell(self.recorder)
        yardsticks = Yardsticks(self.model, self.recipe.encoder, plan.compared_on, self.context)
        yardsticks.tell_time_of_teachers()
        failure = None
        try:
            self._train_stages(plan, encoder, yardsticks)
        except TrainingFailed as error:
            if not self.progress.best_file:
                raise TrainingFailed(f"model {self.model}: {error}") from error
            failure = error
            self.progress.ends.append(f"training failed: {error}")
        result = self._finish(plan, encoder, yardsticks)
        if failure:
            kept_folder = result.folder / "encoder"
            raise TrainingFailed(
                f"{failure}; {kept_folder} is the encoder of {self.progress.place_of_best}",
                kept_folder,
            )
        return result

    def _divided_rows(self) -> DividedRows | None:
        """The rows of the run, where it sets some apart."""
        labelled = self.labelled or read_labelled(self.recipe, self.rows)
        return labelled or read_set_apart(self.recipe, self.rows)

    def _load_start(self) -> Encoder:
        options = self.recipe.encoder.model_dump()
        return Encoder.load(self.model, **options, precision="float32")

    def _train_stages(self, plan: Plan, encoder: Encoder, yardsticks: Yardsticks) -> None:
        """Trains the stages to come, until a signal ends one of them."""
        tensors = self.opened.tensors
        for number in range(self.progress.stage, len(self.recipe.stages)):
            if number > self.progress.stage:
                self.progress = self.progress.next_stage()
            if not tensors:
                self._put_start_back(number, plan, encoder, yardsticks)
            self._train_stage(number, plan, encoder, tensors, yardsticks)
            if not self.progress.over:
                return
            tensors = {}

    def _put_start_back(
        self,
        number: int,
        plan: Plan,
        encoder: Encoder,
        yardsticks: Yardsticks,
    ) -> None:
        """Puts the weights of the start back before a classifier is trained on a tuned encoder.

        They stay away if tuning predicts the labels of the rows set apart better by more than
        chance; or if earlier stages have added layers, which the start lacks.
        """
        labelled = plan.run_data.divided
        is_tuned = self.progress.best_step > 0
        is_classified = isinstance(self.recipe.stages[number].options, ClassifierOptions)
        if (
            not isinstance(labelled, LabelledData)
            or not is_classified
            or not is_tuned
            or plan.reshaped
        ):
            return
        start = self._load_start()
        if len(start.heads) != len(encoder.heads):
            return
        before = yardsticks.start.on_tasks
        gain = self.workers.on_rank_zero(gain_of_tuning, labelled.task(), before, encoder.eval())
        keeps = gain.low > 0
        verdict = "more than chance, so the tuned encoder is kept"
        if not keeps:
            verdict = "it may be chance, so the start is kept"
            encoder.load_state_dict(start.state_dict())
            self.progress.go_back_to_start()
        self.recorder.record(
            "tuning", stage=number, difference=gain.difference, low=gain.low, high=gain.high
        )
        self.recorder.say(
            f"tuning changes the accuracy on rows set apart by {gain.words}: {verdict}"
        )

    def _train_stage(
        self,
        number: int,
        plan: Plan,
        encoder: Encoder,
        tensors: Mapping[str, Tensor],
        yardsticks: Yardsticks,
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
        end = self._end_of_stage(number, yardsticks)
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
        if method.space_of and self.progress.best_step:
            encoder.space_of = method.space_of
        length = min(options.max_length, encoder.max_length)
        self.heads = self._heads_to_keep(method, length)
        if failure:
            raise failure
        if data.dev and self.progress.over:
            score_kept(encoder, method, data, self.context, self.progress, options.chunk_size)
            self.heads = calibrated(
                self.heads, encoder, method, data.dev, self.workers, options.chunk_size
            )

    def _heads_to_keep(self, method: Method, length: int) -> Mapping[str, ClassifierHead]:
        """The method's classifiers. They are not trained where step 0 is kept."""
        heads = method.classifiers(length)
        progress = self.progress
        untrained = run_folder.best_file(progress.stage, 0)
        if heads and progress.best_file in ("", untrained):
            self.recorder.say(
                "step 0 is kept, whose classifier is untrained: the encoder is kept without one"
            )
            return {}
        return heads

    def _end_of_stage(self, number: int, yardsticks: Yardsticks) -> float:
        """When the stage has to be over.

        The stages with steps have equal shares of the time that is left.
        """
        left = time_for_training(self.recipe, self.context, self.progress, yardsticks.seconds)
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

    def _finish(self, plan: Plan, encoder: Encoder, yardsticks: Yardsticks) -> Result:
        """Saves the kept encoder, and compares it with the start unless a signal came."""
        progress = self.progress
        signal = self.context.stop.received
        heads = self._heads_by_task()
        kept_folder = self.workers.on_rank_zero(save_kept, encoder, self.folder, heads)
        if signal and not progress.over:
            self.recorder.say(f"encoder so far: {kept_folder}, from {progress.place_of_best}")
            return Result(self.folder, None, None, signal.name)
        comparison = compare_with_start(
            self.context, self.recipe, yardsticks, kept_folder, progress
        )
        self.workers.on_rank_zero(write_card, encoder, kept_folder)
        if progress.best_step == 0 and not plan.reshaped:
            # The kept encoder is the start, which was trained on no row.
            self.workers.on_rank_zero(remove, self.folder / TRAINED_ROWS)
        # After `TrainingFailed`, the report tells of a run that is not finished.
        finished = progress.over and progress.stage == len(self.recipe.stages) - 1
        if not finished:
            report = self.workers.on_rank_zero(write_report, self.folder)
            return Result(self.folder, report, comparison, None)
        ended = EndedRun(
            self.folder,
            self.model,
            kept_folder,
            self.recipe,
            comparison,
            plan.predicts,
            self.apart_file,
        )
        try:
            suggestions = self.workers.on_rank_zero(write_what_next, ended)
        finally:
            # The run is whole without suggestions, also if Ctrl-C or a full disk ends these.
            report = self.workers.on_rank_zero(write_report, self.folder)
            self._mark_finished()
        for line in suggestions:
            self.recorder.say(line)
        self.recorder.say(comparison.decision)
        return Result(self.folder, report, comparison, None)

    def _heads_by_task(self) -> dict[str, ClassifierHead]:
        """The classifiers to save; that of the only feed has no name."""
        heads = {}
        for name, head in self.heads.items():
            fields = text_fields(Pair if head.settings.pairs else Sentence)
            named = [field for field in fields if field in self.recipe.columns]
            columns = [self.recipe.columns[field] for field in named]
            # The name of one text of a pair says too little.
            heads[name] = head.with_columns(columns if named == list(fields) else ())
        if ROWS in heads:
            heads[""] = heads.pop(ROWS)
        return heads

    def _mark_finished(self) -> None:
        self.workers.on_rank_zero(self.recorder.sync)
        self.workers.on_rank_zero(run_folder.mark_finished, self.folder)
        self.workers.on_rank_zero(run_folder.remove_checkpoints, self.folder)

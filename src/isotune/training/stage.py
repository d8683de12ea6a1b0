"""The training of one stage: steps, evaluations and checkpoints.

After each step the loop asks three objects in turn: the clock, whether the time limit ends the
stage; the selection, at an evaluation, whether to keep the step's encoder; and the checkpoints,
whether it is time to write one.

A checkpoint follows an evaluation, and a second file has the weights of the step kept so far. So
the run can be killed at any moment, and on a CPU a resumed run gives the same bits as one that was
never stopped.
"""

import math
import os
import signal
import time
from contextlib import AbstractContextManager, nullcontext
from typing import cast

from isotune.encoder.encoder import Encoder
from isotune.engine.forward import bytes_for_weights, chunk_that_fits, trained_weights
from isotune.engine.loader import Encode, StepLoader, unit_vectors
from isotune.engine.objectives import Objectives
from isotune.engine.step import (
    Fit,
    Parts,
    Stepper,
    TrainingFailed,
    Update,
    freeze_others,
    use_lower_rate,
)
from isotune.errors import InputError, UselessVectors
from isotune.kernels.cpu.float32 import fast_float32
from isotune.kernels.cpu.memory import free_memory
from isotune.kernels.threads import no_denormals
from isotune.methods.method import ClosedForm, View
from isotune.methods.options import Use
from isotune.recipes import TrainingOptions
from isotune.training.candidates import Candidates, count_candidates
from isotune.training.checkpoints import Checkpoints
from isotune.training.clock import Clock
from isotune.training.recorder import RunContext
from isotune.training.run_data import StageData
from isotune.training.run_folder import Progress, best_file, resume_command
from isotune.training.selection import Scorer, Selection, general_scorer, monitored_sentences
from isotune.training.signals import BrokenOff
from isotune.training.teachers import KeptTeaching

RECORD_EVERY = 10
"""Steps between two records of the loss."""

MUCH_MEMORY = 0.25
"""The share of the free memory from which on it is told what training needs for the weights."""

SAME_VIEWS = (
    "the two views of a sentence are identical: nothing changes them (the model's dropout is 0)"
)


class StageTraining:
    """Trains an encoder by the objectives of a stage, and keeps the weights of one step on disk."""

    def __init__(
        self,
        run: RunContext,
        encoder: Encoder,
        objectives: Objectives,
        data: StageData,
        scorer: Scorer | None,
        options: TrainingOptions,
        progress: Progress,
        end: float,
    ) -> None:
        """Takes what is trained, and what decides about the steps.

        The scorer is None if the last step is kept. The steps have to be over at the `end`, a time
        of the clock `time.monotonic`.
        """
        method = objectives.method
        self.run = run
        self.encoder = encoder
        self.objectives = objectives.to(encoder.device)
        self.progress = progress
        self.loader = StepLoader(
            data.train, method.feeds(), options, run.seed, progress.stage, self._teaching(data)
        )
        self.options = self._with_chunk_size(options)
        self.stepper = self._build_stepper()
        # What a checkpoint holds and a resumed run loads.
        self.parts: Parts = {"encoder": encoder, "objectives": objectives, **self.stepper.parts}
        self.left_out = _left_out_of_checkpoints(objectives, progress)
        self.kept_parts = self._parts_to_keep(data)
        self.selection = Selection(
            scorer,
            general_scorer(options, run.workers),
            monitored_sentences(self.loader.monitored),
            bool(objectives.method.classes),
            objectives.method.space_of is not None,
            self.options,
            run.recorder,
            progress,
        )
        candidates = count_candidates(self.options, has_dev=scorer is not None)
        self.clock = Clock(run, progress, self.stepper.total, candidates, end)
        self.checkpoints = self._build_checkpoints(records_seconds=end < math.inf)
        # When the last record of the loss was written, and the step at which it was.
        self._recorded = time.perf_counter()
        self._recorded_step = progress.step

    @fast_float32()
    @no_denormals()
    def train(self) -> None:
        """Trains until the steps, the patience or the time are used up, or a signal comes.

        Raises:
            TrainingFailed: the loss, its gradient or the encoder's vectors are not finite.
        """
        progress = self.progress
        recorder = self.run.recorder
        try:
            if not progress.was_evaluated:
                self.evaluate()
            if not progress.done:
                # Not before: a resumed run has the right weights only after `load_parts`.
                self.stepper.prepare()
            recorder.start(f"stage {progress.stage + 1}", progress.step, self.stepper.total)
            with self._hear_signals(), self._dropout():
                self._take_steps()
                if progress.over:
                    self._choose()
                else:
                    self._save_stopped()
            self.run.workers.on_rank_zero(self.checkpoints.wait)
        except TrainingFailed as failure:
            recorder.warn(progress.offset + progress.step, str(failure))
            raise
        finally:
            self.checkpoints.close()
        if progress.over and self._agree_to_stop():
            # The signal came in the last step, after which there is more to do.
            assert self.run.stop.received
            signal.raise_signal(self.run.stop.received)

    def _choose(self) -> None:
        """Chooses among the candidates of the stage that is over, where it has candidates."""
        progress = self.progress
        if self.options.interpolations is None or progress.chosen:
            return
        Candidates(self.run, self.encoder, self.kept_parts, self.selection).keep_one()
        self.run.workers.on_rank_zero(self.checkpoints.write)

    def _take_steps(self) -> None:
        """Makes all steps, but stops after the one in which a signal comes."""
        progress = self.progress
        self._restart_record()
        update: Update | None = None
        if progress.owed and not self._agree_to_stop():
            self._evaluate_or_break_off()
        while not progress.done and not self._agree_to_stop():
            before = update
            began = time.perf_counter()
            try:
                update = self.stepper.update(progress.step)
            finally:
                # Also if this step fails: the error of the step before comes first. A GPU is asked
                # about a step when it has the next.
                if before:
                    before.check(self.options)
            progress.step += 1
            self._follow_step(update, time.perf_counter() - began)
        if update:
            update.check(self.options)

    def _follow_step(self, update: Update | None, seconds: float) -> None:
        """Does what follows a step: words, the end of the stage, records, an evaluation.

        `update` is None for a closed form. The step took `seconds`.
        """
        progress = self.progress
        self.clock.tell(seconds, self.options.eval_every, self.encoder.device)
        if progress.step == self.stepper.total:
            progress.end(_why_it_ended(update))
        self.run.recorder.advance()
        evaluates = self.options.evaluates_after(progress.step, self.loader.steps_per_epoch)
        if not progress.done:
            self.clock.end_if_late(seconds, evaluates)
        if update:
            self._follow_update(update, evaluates)
        if evaluates or progress.done:
            self._evaluate_or_break_off()

    def _follow_update(self, update: Update, evaluates: bool) -> None:
        """Checks and records an update, if it is time or an evaluation follows."""
        progress = self.progress
        if update.same_views:
            self.run.recorder.warn(progress.offset, SAME_VIEWS)
        records = progress.done or progress.step % RECORD_EVERY == 0
        if records or evaluates:
            update.check(self.options)
        if records:
            self._record(update)

    def _evaluate_or_break_off(self) -> None:
        """Evaluates the step.

        A signal breaks this off, and a resumed run then evaluates the step first.
        """
        self.progress.owed = True
        try:
            self.evaluate()
        except BrokenOff:
            return
        self._restart_record()

    def evaluate(self) -> None:
        """Scores the encoder, keeps its weights if they are best, and may write a checkpoint.

        Before the first step, the encoder is scored without the heads that the stage's method adds.

        Raises:
            TrainingFailed: the encoder can't be scored.
        """
        began = time.perf_counter()
        self._score_and_keep()
        self.run.workers.on_rank_zero(self.checkpoints.write_if_cheap)
        self.clock.evaluation = time.perf_counter() - began

    def _score_and_keep(self) -> None:
        """Scores the encoder, and keeps its weights if the selection says so."""
        progress = self.progress
        try:
            with self._break_on_signal():
                scores = self.selection.score(self._encoder_to_score())
        except InputError as error:
            raise self._failure(error) from error
        progress.owed = False
        if self.selection.decide(scores, self.stepper.total):
            # At step 0 of a later stage, and after a stage that leaves the encoder as it is, the
            # encoder is still that of the step that the stage before kept.
            if progress.step and self.objectives.method.tunes:
                progress.best_step = progress.offset + progress.step
                progress.best_share = 1.0
            progress.best_file = best_file(progress.stage, progress.step)
            if not progress.step and self.options.interpolations is not None:
                progress.start_file = progress.best_file
            self.run.workers.on_rank_zero(self.checkpoints.keep)

    def _encoder_to_score(self) -> Encoder:
        encoder = self.encoder
        if self.progress.step:
            return encoder
        new_heads = len(self.objectives.method.adds.heads)
        heads = encoder.heads.first(len(encoder.heads) - new_heads)
        return encoder.with_parts(heads=heads)

    def _failure(self, error: InputError) -> TrainingFailed:
        """The error of training for an encoder that can't be scored."""
        if not self.progress.step:
            return TrainingFailed(str(error))
        text = f"after step {self.progress.step}: {error}"
        if isinstance(error, UselessVectors):
            text += f"; {use_lower_rate(self.options)}"
        return TrainingFailed(text)

    def _save_stopped(self) -> None:
        """Writes a checkpoint from which the stage goes on."""
        if not self.selection.chooses_step:
            # This keeps the weights of the step where the run was stopped.
            self._score_and_keep()
        self.run.workers.on_rank_zero(self.checkpoints.write)
        self.run.recorder.say(
            f"stopped after step {self.progress.step} of {self.stepper.total}; "
            f"{resume_command(self.run.folder)} continues from here"
        )

    def _record(self, update: Update) -> None:
        """Writes the values of an update, and the speed of the last steps, to metrics.jsonl."""
        seconds = time.perf_counter() - self._recorded
        progress = self.progress
        loss = update.loss.item()
        rows = (progress.step - self._recorded_step) * self.loader.rows_per_step
        self.run.recorder.show("loss", f"{loss:.4f}")
        self.run.recorder.record(
            "train",
            stage=progress.stage + 1,
            step=progress.offset + progress.step,
            epoch=round(progress.step / self.loader.steps_per_epoch, 4),
            loss=loss,
            terms={name: term.item() for name, term in update.terms.items()},
            learning_rate=update.learning_rate,
            gradient_norm=update.gradient_norm.item(),
            seconds=round(seconds, 3),
            sentences_per_second=round(rows / seconds, 1),
        )
        self._restart_record()

    def _restart_record(self) -> None:
        self._recorded = time.perf_counter()
        self._recorded_step = self.progress.step

    def _agree_to_stop(self) -> bool:
        """Whether a process of the run was told to stop; then all of them stop at this step.

        All processes call this together.
        """
        stop = self.run.stop
        number = self.run.workers.all_reduce_max(stop.received or 0)
        if number:
            stop.received = signal.Signals(number)
        return bool(number)

    def _hear_signals(self) -> AbstractContextManager[object]:
        """A context manager: inside, a signal ends the loop after its step.

        A closed form ends at once: nothing is trained so far.
        """
        if isinstance(self.stepper, Fit):
            return nullcontext()
        return self.run.stop

    def _break_on_signal(self) -> AbstractContextManager[None]:
        """A context manager: inside, a signal ends an evaluation of the loop at once.

        Several processes have to end together.
        """
        if self.progress.owed and self.selection.chooses_step and self.run.workers.world_size == 1:
            return self.run.stop.breaks()
        return nullcontext()

    def _dropout(self) -> AbstractContextManager[object]:
        options = self.options
        return self.encoder.backbone.dropout(options.model_dropout, options.attention_dropout)

    def _parts_to_keep(self, data: StageData) -> Parts:
        """What a file of kept weights holds; the layers that predict too, if there are such."""
        if data.dev or not self.objectives.method.tunes:
            return {"encoder": self.encoder, "method": self.objectives.method}
        return {"encoder": self.encoder}

    def _teaching(self, data: StageData) -> Encode:
        """How teachers encode the text: the vectors of teachers that have a name are kept."""
        if self.objectives.method.options.named(Use.TEACH):
            return KeptTeaching(self.run, data.cache).encode
        return unit_vectors

    def _build_checkpoints(self, records_seconds: bool) -> Checkpoints:
        return Checkpoints(
            self.run,
            self.progress,
            self.parts,
            self.kept_parts,
            self.left_out,
            in_thread=self.encoder.device.type != "cpu",
            records_seconds=records_seconds,
        )

    def _build_stepper(self) -> Stepper | Fit:
        run = self.run
        method = self.objectives.method
        if not method.options.takes_steps:
            closed_form = cast(ClosedForm, method)
            return Fit(run.workers, run.folder, self.encoder, closed_form, self.loader)
        return Stepper(
            run.seed,
            self.progress.stage,
            run.workers,
            run.folder,
            self.encoder,
            self.objectives,
            self.loader,
            self.options,
        )

    def _with_chunk_size(self, options: TrainingOptions) -> TrainingOptions:
        """The options with the rows that are encoded at a time.

        At the stage's first step, the free memory decides.
        """
        method = self.objectives.method
        progress = self.progress
        if not method.options.takes_steps:
            return options
        decides = self.encoder.device.type == "cpu" and not progress.step and not method.cached
        if decides:
            freeze_others(self.encoder, self.objectives, options)
            lowest = self._free_memory()
            self._tell_memory(lowest)
        if options.chunk_size:
            return options
        if decides:
            progress.chunk_size = self._chunk_that_fits(lowest)
        return options.model_copy(update={"chunk_size": progress.chunk_size})

    def _free_memory(self) -> int:
        """The bytes of memory that a process may use, of the process that has the fewest."""
        processes_here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        own = free_memory() // processes_here
        return -self.run.workers.all_reduce_max(-own)

    def _tell_memory(self, free: int) -> None:
        """Says what training needs for the weights, if that is much of the free memory in bytes."""
        needed = bytes_for_weights(self.encoder)
        if needed < MUCH_MEMORY * free:
            return
        advice = ""
        if needed > free:
            advice = "; frozen_blocks makes it less, by training the upper blocks alone"
        trained = trained_weights(self.encoder) / 1e6
        self.run.recorder.say(
            f"stage {self.progress.stage + 1}: the gradient and AdamW's averages of {trained:,.1f} "
            f"million trained weights take {needed / 1e6:,.0f} MB of memory, and {free / 1e6:,.0f} "
            f"MB are free{advice}"
        )

    def _chunk_that_fits(self, lowest: int) -> int | None:
        """How many rows to encode at a time, so that a step fits into the lowest free memory.

        None stands for all of them.
        """
        # Only the sizes are looked at; step 0 asks again.
        asked, _, _ = self.objectives.views_and_losses(self.loader.batch(0), self.encoder.device)
        views = [view for view in asked if isinstance(view, View) and not view.backbone]
        chunk = chunk_that_fits(self.encoder, views, self.run.workers, lowest)
        if chunk:
            self.run.recorder.say(
                f"stage {self.progress.stage + 1}: {lowest / 1e6:,.0f} MB of memory are free; "
                f"rows that are encoded at a time (chunk_size): {chunk}; "
                "but for rounding, the result is the same"
            )
        return chunk


def _why_it_ended(update: Update | None) -> str:
    """Why a stage ends that has made all of its steps."""
    if update is None:
        return "computed from all texts at once"
    return f"all {update.step:,} steps were made"


def _left_out_of_checkpoints(objectives: Objectives, progress: Progress) -> set[str]:
    """The tensors that checkpoints leave out: those of a fixed copy of the start.

    A run that is resumed in the first stage makes the copy again. A later stage can't: there, the
    copy is of what the stage before it has kept.
    """
    fixed = objectives.method.fixed
    if not fixed or progress.stage:
        return set()
    prefix = f"method.{fixed}."
    names = [name for name in objectives.state_dict() if name.startswith(prefix)]
    return {f"objectives.{name}" for name in names}

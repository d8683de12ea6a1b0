"""The training of one stage: steps, evaluations and checkpoints.

A checkpoint follows an evaluation, and a second file has the weights of the step kept so far. So the run can be
killed at any moment, and on a CPU a resumed run gives the same bits as one that was never stopped.
"""

import math
import os
import shlex
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from datetime import timedelta
from typing import cast

import torch

from isotune.encoder.encoder import Encoder
from isotune.engine.feed import Feeder
from isotune.engine.forward import chunk_that_fits
from isotune.engine.objectives import Objectives
from isotune.engine.step import Fit, Parts, Stepper, TrainingFailed, Update, use_lower_rate
from isotune.errors import InputError, UselessVectors
from isotune.kernels.cpu.float32 import fast_float32
from isotune.kernels.cpu.memory import free_memory, peak_memory
from isotune.kernels.threads import no_denormals
from isotune.methods.method import ClosedForm, View
from isotune.plugins import plugin_words
from isotune.recipes import TrainingOptions
from isotune.training.corpora import StageData
from isotune.training.recorder import RunContext
from isotune.training.run_folder import (
    LAST,
    Progress,
    best_file,
    remove_former_best,
    save_tensors,
    tensors_of,
)
from isotune.training.selection import Scorer, Selection, general_scorer, monitored_sentences

RECORD_EVERY = 10  # steps between two records of the loss
SCORINGS = (
    3  # for which a time limit leaves time: of the last step, and twice in a stage without steps
)
CHECKPOINTS = (
    0.05  # share of the time that checkpoints may take; with one of BERT-base, 1.3 GB are written
)
SAME_VIEWS = (
    "the two views of a sentence are identical: nothing changes them (the model's dropout is 0)"
)


class StageTraining:
    """Trains an encoder by the objectives of one stage, and keeps the weights of one step on disk."""

    def __init__(
        self,
        run: RunContext,
        encoder: Encoder,
        objectives: Objectives,
        data: StageData,
        scorer: Scorer | None,
        options: TrainingOptions,
        progress: Progress,
        end: float,  # when the steps have to be over, by the clock `time.monotonic`
    ) -> None:
        method = objectives.method
        feeder = Feeder(data.train, method.feeds(), options, run.seed, progress.stage)
        self.run, self.encoder, self.objectives = run, encoder, objectives.to(encoder.device)
        self.options, self.progress, self.feeder, self.end = options, progress, feeder, end
        self.stepper: Stepper | Fit
        if method.options.takes_steps:
            if (
                not (options.chunk_size or progress.step or method.cached)
                and encoder.device.type == "cpu"
            ):
                progress.chunk_size = self._chunk_that_fits()
            self.options = options = options.model_copy(
                update={"chunk_size": options.chunk_size or progress.chunk_size}
            )
            self.stepper = Stepper(
                run.seed,
                progress.stage,
                run.workers,
                run.folder,
                encoder,
                objectives,
                feeder,
                options,
            )
        else:
            self.stepper = Fit(run.workers, run.folder, encoder, cast(ClosedForm, method), feeder)
        # What a checkpoint holds and a resumed run loads.
        self.parts: Parts = {"encoder": encoder, "objectives": objectives, **self.stepper.parts}
        # But for a fixed copy of the start: a run that is resumed in the first stage makes the copy again.
        fixed = f"method.{method.fixed}." if method.fixed and not progress.stage else None
        self.fixed = {
            f"objectives.{name}"
            for name in objectives.state_dict()
            if fixed and name.startswith(fixed)
        }
        # What a file of kept weights holds. Layers that predict are scored again when the stage is over.
        self.kept: Parts = {"encoder": encoder, **({"method": method} if data.dev else {})}
        general = general_scorer(options, run.workers)
        monitored = monitored_sentences(feeder.monitored)
        self.selection = Selection(scorer, general, monitored, options, run.recorder, progress)
        self._saved, self._seconds = (
            time.perf_counter(),
            0.0,
        )  # when the last checkpoint was written, and how long
        self._best_saved = progress.best_file  # the file that it names
        self._writer = ThreadPoolExecutor(1)  # of checkpoints, beside the steps of a GPU
        self._writing: Future[None] | None = None
        self._evaluating = (
            0.0  # seconds of the last evaluation; a resumed run doesn't know them at first
        )

    def _chunk_that_fits(self) -> int | None:
        """How many rows to encode at a time, so that a step fits into the free memory; None for all of them."""
        free = -self.run.workers.highest(
            -(free_memory() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
        )  # the lowest
        asked, _, _ = self.objectives.ask(self.feeder.batch(0), self.encoder.device)
        views = [view for view in asked if isinstance(view, View) and not view.backbone]
        if chunk := chunk_that_fits(self.encoder, views, self.run.workers, free):
            text = f"{free / 1e6:,.0f} MB of memory are free; rows that are encoded at a time (chunk_size): {chunk}"
            self.run.recorder.say(
                f"stage {self.progress.stage + 1}: {text}; but for rounding, the result is the same"
            )
        return chunk

    @fast_float32()
    @no_denormals()
    def train(self) -> None:
        """Trains until the steps or the patience are used up, or a signal comes, which ends them after its step.

        Raises:
            TrainingFailed: the loss, its gradient or the encoder's vectors are not finite.
        """
        progress, recorder = self.progress, self.run.recorder
        options, backbone = self.options, self.encoder.backbone
        try:
            if progress.start_space is None:
                self.evaluate()
            if not progress.done:
                self.stepper.open()  # not before: a resumed run has the right weights only after `load_parts`
            recorder.start(f"stage {progress.stage + 1}", progress.step, self.stepper.total)
            with self.run.stop, backbone.dropout(options.model_dropout, options.attention_dropout):
                self._take_steps()
                if not progress.done:
                    self._save_stopped()
            self.run.workers.by_leader(self._finish_checkpoint)
        except TrainingFailed as failure:
            recorder.warn(progress.offset + progress.step, str(failure))
            raise
        finally:
            self._writer.shutdown()
        if progress.done and self._stopped():  # in the last step, after which there is more to do
            assert self.run.stop.received
            signal.raise_signal(self.run.stop.received)

    def _save_stopped(self) -> None:
        """Writes a checkpoint from which the stage goes on."""
        progress = self.progress
        if self.selection.scorer is None and self.selection.general is None:
            self.evaluate(
                self._write_checkpoint
            )  # which keeps the weights of the step where the run was stopped
        else:
            self.run.workers.by_leader(self._write_checkpoint)
        command = shlex.join(
            ["isotune", "train", "--out", str(self.run.folder), "--resume", *plugin_words()]
        )
        self.run.recorder.say(
            f"stopped after step {progress.step} of {self.stepper.total}; {command} continues from here"
        )

    def _take_steps(self) -> None:
        """Makes all updates; records every `RECORD_EVERY` steps, evaluates and saves every `eval_every` steps."""
        progress = self.progress
        whole_epochs = self.options.as_released.whole_epochs
        clock, first_step = time.perf_counter(), progress.step
        update: Update | None = None
        second = first_step + 2  # the first step is slower
        while not (progress.done or self._stopped()):
            before, began = update, time.perf_counter()
            try:
                update = self.stepper.update(progress.step)
            finally:
                if before:  # asked of a step when a GPU has the next
                    before.check(self.options)
            if update and update.same_views:
                self.run.recorder.warn(progress.offset, SAME_VIEWS)
            progress.step += 1
            taken = time.perf_counter() - began
            if progress.step == second < self.stepper.total:
                self._tell_time(taken)
            if progress.step == self.stepper.total:
                progress.end(
                    f"all {progress.step:,} steps were made"
                    if update
                    else "computed from all texts at once"
                )
            self.run.recorder.advance()
            # `eval_every` counts from 0 at the start of each epoch, if all of them are whole.
            counted = progress.step % self.feeder.steps_per_epoch if whole_epochs else progress.step
            evaluated = counted % self.options.eval_every == 0 or progress.done
            if not progress.done and self._must_end(taken, evaluated):
                evaluated = True
            recorded = progress.step % RECORD_EVERY == 0 or progress.done
            if update and (evaluated or recorded):
                update.check(self.options)
            if update and recorded:
                self._record(update, progress.step - first_step, time.perf_counter() - clock)
                clock, first_step = time.perf_counter(), progress.step
            if evaluated:
                self.evaluate()
                clock, first_step = time.perf_counter(), progress.step
        if update:
            update.check(self.options)

    def _tell_time(self, seconds: float) -> None:
        """Says what the rest of the stage costs, if each step takes so many seconds."""
        left = self.stepper.total - self.progress.step
        scoring = math.ceil(left / self.options.eval_every) * self._evaluating
        memory = (
            torch.cuda.max_memory_allocated()
            if self.encoder.device.type == "cuda"
            else peak_memory()
        )
        held = f"; memory so far: {memory / 1e6:,.0f} MB" if memory else ""
        self.run.recorder.say(
            f"stage {self.progress.stage + 1}: about {timedelta(seconds=round(left * seconds + scoring))} are left, "
            f"{seconds:.3g} s a step and {scoring:.3g} s for evaluations{held}"
        )

    def _must_end(self, step: float, evaluated: bool) -> bool:
        """Whether the time limit leaves no time for a step of so many seconds, and the evaluations until its end."""
        needed = step + (SCORINGS + evaluated) * self._evaluating
        if self.end == math.inf or not self.run.workers.highest(
            int(time.monotonic() + needed > self.end)
        ):
            return False
        stage, made = self.progress.stage + 1, f"{self.progress.step} of {self.stepper.total}"
        text = f"the time limit ended stage {stage} after step {made}; the best step so far is kept"
        self.run.recorder.warn(self.progress.offset + self.progress.step, text)
        self.progress.end(f"the time limit came after step {made}")
        return True

    def _stopped(self) -> bool:
        """Whether a process of the run was told to stop; then all of them stop at this step."""
        stop = self.run.stop
        if number := self.run.workers.highest(stop.received or 0):
            stop.received = signal.Signals(number)
        return bool(number)

    def evaluate(self, write: Callable[[], None] | None = None) -> None:
        """Scores the encoder, keeps its weights if the selection says so, and writes a checkpoint if it is time.

        `write` writes the checkpoint at any time.

        Before the first step, the encoder is scored without the heads that the stage's method adds.

        Raises:
            TrainingFailed: the encoder can't be scored.
        """
        progress, began = self.progress, time.perf_counter()
        encoder = self.encoder
        if not progress.step:
            heads = encoder.heads.first(len(encoder.heads) - len(self.objectives.method.adds.heads))
            encoder = encoder.reading(encoder.pooling, heads)
        try:
            keep = self.selection.judge(encoder, self.stepper.total)
        except InputError as error:
            advice = (
                f"; {use_lower_rate(self.options)}" if isinstance(error, UselessVectors) else ""
            )
            raise TrainingFailed(
                f"after step {progress.step}: {error}{advice}" if progress.step else str(error)
            ) from error
        if keep:
            # At step 0 of a later stage, the encoder is still that of the step that the stage before kept.
            progress.best_step = (
                progress.offset + progress.step if progress.step else progress.best_step
            )
            progress.best_file = best_file(progress.stage, progress.step)
            self.run.workers.by_leader(self._write_kept)
        self.run.workers.by_leader(write or self._write_checkpoint_in_time)
        self._evaluating = time.perf_counter() - began

    def _write_kept(self) -> None:
        self._finish_checkpoint()
        save_tensors(self.run.folder / self.progress.best_file, tensors_of(self.kept))

    def _write_checkpoint_in_time(self) -> None:
        """Writes a checkpoint at the end of the stage, or if the last one has taken little of the time since then."""
        self._finish_checkpoint()
        if self.progress.done or self._seconds <= CHECKPOINTS * (time.perf_counter() - self._saved):
            self._write_checkpoint()
        else:
            remove_former_best(self.run.folder, self.progress.best_file, self._best_saved)

    def _write_checkpoint(self) -> None:
        """Writes the checkpoint, and only then deletes best weights that the checkpoint no longer names.

        From a GPU, the weights are copied, and a thread writes them while the steps go on.
        """
        folder, progress, start = self.run.folder, self.progress, time.perf_counter()
        self._finish_checkpoint()
        progress.metrics_bytes = self.run.recorder.sync()
        if self.end < math.inf:
            progress.seconds = time.monotonic() - self.run.begun
        tensors, header, kept = (
            tensors_of(self.parts, self.fixed),
            asdict(progress),
            progress.best_file,
        )

        def write() -> None:
            save_tensors(folder / LAST, tensors, header)
            remove_former_best(folder, kept)

        if self.encoder.device.type == "cpu":  # whose weights are no copies
            write()
        else:
            self._writing = self._writer.submit(write)
        self._saved, self._best_saved = time.perf_counter(), progress.best_file
        self._seconds = self._saved - start

    def _finish_checkpoint(self) -> None:
        """Waits until the last checkpoint is written, which deletes files of other kept weights; raises its error."""
        if self._writing:
            start = time.perf_counter()
            self._writing.result()
            self._writing, self._seconds = None, self._seconds + time.perf_counter() - start

    def _record(self, update: Update, steps: int, seconds: float) -> None:
        """Writes the values of an update, and the speed of the last steps, to metrics.jsonl."""
        progress, loss = self.progress, update.loss.item()
        self.run.recorder.show("loss", f"{loss:.4f}")
        self.run.recorder.record(
            "train",
            stage=progress.stage + 1,
            step=progress.offset + progress.step,
            epoch=round(progress.step / self.feeder.steps_per_epoch, 4),
            loss=loss,
            terms={name: term.item() for name, term in update.terms.items()},
            learning_rate=update.learning_rate,
            gradient_norm=update.gradient_norm.item(),
            seconds=round(seconds, 3),
            sentences_per_second=round(steps * self.feeder.rows_per_step / seconds, 1),
        )

"""A run, from sources to report: what `isotune train` and `isotune.train` do.

Everything is written into one folder, in an order that leaves something whole at every moment: the resolved recipe
first, then metrics and checkpoints, the best encoder, and last the evaluation and the page that shows it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import PartialState

from isotune.bundled import BUNDLED_MODEL
from isotune.data import ScoredPairs, read_scored_pairs
from isotune.data.rows import Row
from isotune.encoder.encoder import Encoder
from isotune.encoder.options import EncoderOptions
from isotune.encoder.scratch import make_model
from isotune.errors import InputError
from isotune.evaluation import Evaluation, RunEvaluation, STSTask, Task, cosine_similarities, evaluate_on, load_tasks
from isotune.evaluation.unlabelled import SELECTION_CRITERION
from isotune.files import write_text
from isotune.methods import method_class
from isotune.methods.method import Method
from isotune.methods.mlm import with_mlm
from isotune.recipes import Recipe, Stage, resolve
from isotune.report import write_report
from isotune.training.checkpoint import Progress, best_file, load_checkpoint, load_tensors
from isotune.training.corpora import Corpora
from isotune.training.interrupt import StopSignal
from isotune.training.loop import Loop
from isotune.training.recorder import Recorder
from isotune.training.run_folder import create, last_checkpoint, started
from isotune.training.seeds import derive_seed

# What chooses where `dev` names no scored pairs.
CHOICES = {
    "none": "; the last encoder is kept, not the best",
    "unlabelled": f"; {SELECTION_CRITERION} of training sentences chooses",
}


@dataclass(frozen=True)
class Result:
    """What a run leaves.

    Attributes:
        folder: the run folder.
        encoder: the encoder that was kept, a sentence-transformers folder.
        report: the page that shows it.
        evaluation: the start and the kept encoder on the same tasks.
        stopped: the signal that ended it early, by name; None if it ran its course.
    """

    folder: Path
    encoder: Path
    report: Path
    evaluation: RunEvaluation
    stopped: str | None


def train(
    sources: str | Path | Sequence[str | Path] = (),
    *,
    out: str | Path,
    rows: Iterable[str | Row] | None = None,
    recipe: str | Path | None = None,
    method: str | None = None,
    resume: bool = False,
    quiet: bool = False,
    **options: Any,
) -> Result:
    """Tunes an encoder and shows what it gained.

    Args:
        sources: files, patterns, named datasets, "hub:owner/name" or "-"; see `data.read`.
        out: the run folder to make.
        rows: sentences (or rows of the method's kind) from Python, in place of sources; a resumed run needs the same
            ones again.
        recipe: a recipe's name or TOML file.
        method: a method's name, for its defaults in place of a recipe's values. With neither, the recipe "mini" for
            the bundled model, and "default" for any other.
        resume: go on with the run in `out`, as it was started.
        quiet: say nothing on standard error.
        options: what is to differ from the recipe; the fields of `Recipe`, `EncoderOptions`, `TrainingOptions` and of
            the method's options.

    Raises:
        InputError: anything that can't be used, before anything is lost.
    """
    if PartialState().num_processes > 1:
        raise InputError("a run takes one process: start it without torchrun or accelerate launch")
    folder = Path(out)
    names = [str(source) for source in ([sources] if isinstance(sources, str | Path) else sources)]
    if names and rows is not None:
        raise InputError("sources and rows are both given; give one of them")
    rows = None if rows is None else list(rows)
    if resume:
        if recipe or method or options or names:
            raise InputError("resume goes on with a run as it was started; leave the sources and all options out")
        plan = started(folder)
        tensors, progress = last_checkpoint(folder)
        report = folder / "report.html"
        if report.exists() and progress.done and progress.stage == len(plan.stages) - 1:
            raise InputError(f"{folder}: this run is finished; its report is {report}")
    else:
        plan = resolve(names or ([] if rows is None else [f"{len(rows)} rows from Python"]), recipe, method, options)
        create(folder, plan)
        tensors, progress = {}, Progress()
    try:
        with Recorder(folder, progress.metrics_bytes, quiet) as recorder, StopSignal() as stop, torch.random.fork_rng():
            return _Run(plan, folder, rows, recorder, stop).run(tensors, progress)
    except (InputError, OSError):
        if not resume and not (folder / "last.safetensors").exists():
            # It was empty or not there before, and nothing has been trained. A volume's own folder can't be removed.
            shutil.rmtree(folder, ignore_errors=True)
        raise


class _Run:
    """One run in its folder."""

    def __init__(
        self, plan: Recipe, folder: Path, rows: Iterable[str | Row] | None, recorder: Recorder, stop: StopSignal
    ) -> None:
        self.plan = plan
        self.folder = folder
        self.rows = rows
        self.recorder = recorder
        self.stop = stop
        self.model = str(folder / "start") if plan.scratch else plan.model or BUNDLED_MODEL

    def run(self, tensors: dict[str, torch.Tensor], progress: Progress) -> Result:
        """Trains every stage that isn't over, from a checkpoint if there is one, then shows the result."""
        plan, say = self.plan, self.recorder.say
        say(f"run: {self.folder}")
        say(
            f"model: {self.model}{', the bundled one (--model takes any other)' if self.model == BUNDLED_MODEL else ''}"
        )
        dev = read_scored_pairs(plan.dev_pairs) if plan.dev_pairs else None
        say(f"dev pairs: {plan.dev}{CHOICES.get(plan.dev, '')}")
        tasks = load_tasks(plan.tasks)  # now, and not when the training is done: a name may be wrong
        watched = [task.pairs for task in tasks if isinstance(task, STSTask)] + ([dev] if dev else [])
        corpora = Corpora(plan, self.rows, watched, self.folder, self.recorder)
        corpora.check(progress.stage)
        self.start(corpora)
        encoder = Encoder.load(self.model, **plan.encoder.model_dump(), precision="float32")
        self.try_stages(corpora, progress.stage, deepcopy(encoder))
        for number, stage in enumerate(plan.stages):
            torch.manual_seed(derive_seed(plan.seed, "method", number))
            heads = len(encoder.heads)
            method = _method(stage, encoder)
            if number < progress.stage:  # it is over; what it added to the encoder is there now
                if number in progress.dropped:
                    encoder.heads.drop_last(len(encoder.heads) - heads)
                continue
            for note in method.notes:
                say(note)
            if scored := [name or metric for name, feed in method.dev_feeds().items() for metric in feed.metrics]:
                say(f"stage {number + 1} is scored on labelled rows, in place of the dev pairs: {', '.join(scored)}")
            stores = corpora.train(number, stage, method, encoder)
            dev_stores = corpora.dev(stage, method, encoder)
            if number > progress.stage:
                offset = progress.offset + progress.step
                progress = Progress(number, offset, best_step=progress.best_step, dropped=progress.dropped)
            loop = Loop(
                encoder,
                method,
                stores,
                dev,
                dev_stores,
                stage.training,
                plan.seed,
                progress,
                self.folder,
                self.recorder,
                len(encoder.heads) - heads,
                unlabelled=plan.dev == "unlabelled",
            )
            if tensors:
                load_checkpoint(tensors, encoder, method, loop.optimizers)
                tensors = {}
            (self.folder / "report.html").unlink(missing_ok=True)  # it is the mark of a run that is finished
            loop.run(self.stop)
            if not progress.best_file:
                raise InputError(f"model {self.model}: {loop.problem}")
            best, _ = load_tensors(self.folder / progress.best_file)
            encoder.load_state_dict(best)
            if progress.best_file == best_file(number, 0) and len(encoder.heads) > heads:
                say("no step scored better than the encoder without the method's new layers: they are dropped")
                encoder.heads.drop_last(len(encoder.heads) - heads)
                progress.dropped.append(number)
            problem, stopped = loop.problem, not progress.done
            del loop, best  # the optimiser's moments among them
            if problem or stopped:
                break
        result = self.show(encoder, progress, tasks)
        if problem:
            raise InputError(f"{problem}; the best encoder so far is {result.encoder}")
        return result

    def try_stages(self, corpora: Corpora, first: int, encoder: Encoder) -> None:
        """Makes every stage's method on an encoder to throw away, and looks at what those from `first` on read.

        Raises:
            InputError: a stage could not start, or no stage has a use for the dropout that is asked for.
        """
        stages, cached = self.plan.stages, set[int]()
        for number, stage in enumerate(stages):
            method = _method(stage, encoder)
            cached |= {number} if method.cached else set()
            if number >= first:
                corpora.look(stage, method, encoder)
        for option in ("model_dropout", "head_dropout"):
            asked = [number for number, stage in enumerate(stages) if getattr(stage.training, option)]
            if asked and cached.issuperset(asked):
                stage = stages[asked[0]]
                instead = ", or compute them in every step (--no-cached)" if hasattr(stage.options, "cached") else ""
                raise InputError(
                    f"{option}: method {stage.method} computes the vectors of its text once, without dropout; leave it "
                    f"at 0{instead}"
                )

    def start(self, corpora: Corpora) -> None:
        """Makes the model if it is to be a new one; a resumed run finds it there."""
        folder = Path(self.model)
        if self.plan.scratch is None or folder.exists():
            return
        self.recorder.say("a new model: its vocabulary is made from the text")
        torch.manual_seed(derive_seed(self.plan.seed, "scratch"))
        new = self.folder / "start.new"
        make_model(new, self.plan.scratch, corpora.texts())
        new.rename(folder)

    def show(self, encoder: Encoder, progress: Progress, tasks: Sequence[Task]) -> Result:
        """Saves the kept encoder, reads it back from disk, and compares it with the start; the report comes last."""
        new, kept, old = (self.folder / name for name in ("encoder.new", "encoder", "encoder.old"))
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)
        encoder.save(new)
        if kept.exists():
            kept.rename(old)
        new.rename(kept)
        shutil.rmtree(old, ignore_errors=True)
        del encoder
        self.recorder.say(f"encoder: {kept}, from step {progress.best_step}; now it is evaluated, and the start too")
        if progress.best_step == 0 and progress.best_score is not None:
            by = "on the dev data" if self.plan.dev != "unlabelled" else f"by {SELECTION_CRITERION}"
            self.recorder.warn(0, f"no step scored better {by} than the start, so that is what was kept")

        # ConSERT's Figure 1 is drawn on STS-B; without it, on the first task of scored pairs.
        scored = [task.pairs for task in tasks if isinstance(task, STSTask)]
        figure = [pairs for pairs in scored if pairs.name == "stsb"] or scored[:1]  # one, or none
        before, was = _measure(self.model, self.plan.encoder, tasks, figure)
        after, now = _measure(kept, EncoderOptions(), tasks, figure)
        comparison = RunEvaluation(before=before, after=after, selected_step=progress.best_step)
        self.recorder.say("scores of the start -> of the encoder kept; correlations are Spearman's")
        old_scores = before.scores()
        for name, score in after.scores().items():
            self.recorder.say(f"{name}: {old_scores[name]:.4f} -> {score:.4f}")
        write_text(self.folder / "evaluation.json", comparison.model_dump_json(indent=2) + "\n")
        for pairs, first, last in zip(figure, was, now, strict=True):
            np.savez_compressed(
                self.folder / "cosines.npz",
                allow_pickle=False,
                task=np.array(pairs.name),
                gold=pairs.scores.astype(np.float32),
                before=first,
                after=last,
            )
        report = write_report(self.folder)
        stopped = self.stop.received.name if self.stop.received and not progress.done else None
        return Result(self.folder, kept, report, comparison, stopped)


def _method(stage: Stage, encoder: Encoder) -> Method:
    """The stage's method, with masked language modelling beside it where that has a weight."""
    kind, training = method_class(stage.method), stage.training
    encoder.backbone.check_drop_heads(training.head_dropout)
    if training.mlm_weight:
        return with_mlm(kind, stage.options, encoder, training.mlm_weight, training.mlm_rate)
    if stage.method != "mlm":
        encoder.language_head = None  # of a stage before: not trained here, it would no longer fit
    return kind(stage.options, encoder)


def _measure(
    model: str | Path, options: EncoderOptions, tasks: Sequence[Task], figure: Sequence[ScoredPairs]
) -> tuple[Evaluation, list[np.ndarray]]:
    """An encoder's evaluation, and its cosines [N] float32 on each of the pairs to draw."""
    encoder = Encoder.load(model, **options.model_dump(), precision="float32")
    cosines = [cosine_similarities(encoder, pairs).astype(np.float32) for pairs in figure]
    return evaluate_on(tasks, encoder, str(model)), cosines

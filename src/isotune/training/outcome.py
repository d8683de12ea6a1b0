"""The end of a run: the kept encoder is saved, read back from disk, and compared with the start.

The comparison uses the encoder as users get it: from the folder, not from memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isotune.data import ScoredPairs
from isotune.encoder.encoder import Encoder
from isotune.encoder.options import EncoderOptions
from isotune.evaluation import Evaluation, RunEvaluation, STSTask, Task, cosine_similarities, evaluate_on
from isotune.files import put_into_place, replacing, write_text
from isotune.recipes import Recipe
from isotune.training.run_folder import Progress
from isotune.training.stage import RunContext
from isotune.training.workers import SharedEncoder, Workers


@dataclass(frozen=True)
class Result:
    """The result of a run."""

    folder: Path  # the run folder
    encoder: Path  # the folder of the kept encoder, in sentence-transformers' form
    report: Path  # the report page
    evaluation: RunEvaluation  # the scores of the start and of the kept encoder on the same tasks
    stopped: str | None  # the name of the signal that stopped the run early; None if the run is finished


def save_kept(encoder: Encoder, folder: Path) -> Path:
    """Saves the kept encoder in the run folder. An encoder that lies there already stays until the new one is whole."""
    new, kept, old = (folder / name for name in ("encoder.new", "encoder", "encoder.old"))
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)
    encoder.save(new)
    if kept.exists():
        kept.rename(old)
    put_into_place(new, kept)
    shutil.rmtree(old, ignore_errors=True)
    return kept


def compare_with_start(
    recipe: Recipe, start: str, kept: Path, tasks: Sequence[Task], progress: Progress, run: RunContext
) -> RunEvaluation:
    """Evaluates the start and the kept encoder, and writes evaluation.json and cosines.npz beside the kept encoder."""
    folder, recorder, workers = run.folder, run.recorder, run.workers
    recorder.say(f"encoder: {kept}, from step {progress.best_step}; evaluating this encoder and the start")
    if progress.best_step == 0 and progress.best_score is not None:
        recorder.warn(0, "no step scored better on the dev data than the start, so the start was kept")
    # ConSERT's Figure 1 shows STS-B. Without STS-B, the figure shows the first task of scored pairs.
    scored = [task.pairs for task in tasks if isinstance(task, STSTask)]
    drawn = next((pairs for pairs in scored if pairs.name == "stsb"), scored[0] if scored else None)
    before, cosines_before = _measure(start, recipe.encoder, tasks, drawn, workers)
    after, cosines_after = _measure(kept, EncoderOptions(), tasks, drawn, workers)
    comparison = RunEvaluation(before=before, after=after, selected_step=progress.best_step)
    recorder.say("scores of the start -> of the kept encoder; correlations are Spearman's")
    scores_before = before.scores()
    for name, score in after.scores().items():
        recorder.say(f"{name}: {scores_before[name]:.4f} -> {score:.4f}")
    if not workers.leads:
        return comparison
    write_text(folder / "evaluation.json", comparison.model_dump_json(indent=2) + "\n")
    if drawn is not None:
        with replacing(folder / "cosines.npz") as part, part.open("wb") as file:
            np.savez_compressed(
                file,
                allow_pickle=False,
                task=np.array(drawn.name),
                gold=drawn.scores.astype(np.float32),
                before=cosines_before,
                after=cosines_after,
            )
    return comparison


def _measure(
    model: str | Path, options: EncoderOptions, tasks: Sequence[Task], drawn: ScoredPairs | None, workers: Workers
) -> tuple[Evaluation, np.ndarray]:
    """An encoder's evaluation, and its cosines [N] float32 on the pairs to draw."""
    encoder = SharedEncoder(Encoder.load(model, **options.model_dump(), precision="float32"), workers)
    cosines = cosine_similarities(encoder, drawn).astype(np.float32) if drawn else np.empty(0, np.float32)
    return evaluate_on(tasks, encoder, str(model)), cosines

"""What time a run has and needs: what is told about it, and where a time limit ends a stage."""

import math
import time
from collections.abc import Callable
from datetime import timedelta

import torch

from isotune.errors import InputError
from isotune.kernels.cpu.memory import peak_memory
from isotune.recipes import Recipe
from isotune.training.recorder import RunContext
from isotune.training.run_folder import Progress

SCORINGS = 3
"""Evaluations for which a time limit leaves time.

One is that of the last step, and two are those of a stage without steps.
"""


class Clock:
    """Says how long a stage takes, and ends it where a time limit leaves no time for a step."""

    def __init__(
        self, run: RunContext, progress: Progress, total: int, candidates: int, end: float
    ) -> None:
        """Takes the steps of the stage, and when they have to be over, by `time.monotonic`.

        When the steps are over, as many `candidates` are evaluated.
        """
        self._run = run
        self._progress = progress
        self._total = total
        self._candidates = candidates
        self._end = end
        # The first step is slower than the others, so the second one is measured.
        self._measured = progress.step + 2
        # Seconds of the last evaluation; a resumed run doesn't know them at first.
        self.evaluation = 0.0

    def tell(self, step_seconds: float, eval_every: int, device: torch.device) -> None:
        """Says once what the rest of the stage costs, if each step takes `step_seconds`."""
        progress = self._progress
        if progress.step != self._measured or progress.step >= self._total:
            return
        left = self._total - progress.step
        scoring = (math.ceil(left / eval_every) + self._candidates) * self.evaluation
        rest = timedelta(seconds=round(left * step_seconds + scoring))
        memory = peak_memory()
        if device.type == "cuda":
            memory = torch.cuda.max_memory_allocated()
        held = ""
        if memory:
            held = f"; memory so far: {memory / 1e6:,.0f} MB"
        self._run.recorder.say(
            f"stage {progress.stage + 1}: about {rest} are left, {step_seconds:.3g} s a step and "
            f"{scoring:.3g} s for evaluations{held}"
        )

    def end_if_late(self, step_seconds: float, evaluates: bool) -> None:
        """Ends the stage if the time limit leaves no time for another step and its evaluations.

        A step takes `step_seconds`. `evaluates` says whether the last step is evaluated anyway.
        """
        if self._end == math.inf:
            return
        evaluations = SCORINGS + self._candidates
        if evaluates:
            evaluations += 1
        needed = step_seconds + evaluations * self.evaluation
        late = time.monotonic() + needed > self._end
        if not self._run.workers.all_reduce_max(int(late)):
            return
        progress = self._progress
        stage = progress.stage + 1
        step_of = f"{progress.step} of {self._total}"
        self._run.recorder.warn(
            progress.offset + progress.step,
            f"the time limit ended stage {stage} after step {step_of}; "
            "the best step so far is kept",
        )
        progress.end(f"the time limit came after step {step_of}")


def time_for_training(
    recipe: Recipe, run: RunContext, progress: Progress, measure_start: Callable[[], float]
) -> float:
    """The seconds that the time limit leaves for training. The first stage's beginning says them.

    `measure_start` scores the start, and the teachers if there are any. It returns the seconds of
    the start, which the end of the run takes again.

    Raises:
        InputError: the limit leaves no time.
    """
    if not recipe.time_limit:
        return math.inf
    begins = not (progress.stage or progress.step)
    say = run.recorder.say
    if begins:
        say("the start is scored, to know what the time limit leaves for training")
    limit = 60 * float(recipe.time_limit)
    scoring_seconds = measure_start()
    spent = time.monotonic() - run.began_at
    left = limit - spent - scoring_seconds
    if begins:
        costs = (
            f"to load and to score the start took {spent:,.0f} s, "
            f"and to score the result takes {scoring_seconds:,.0f} s"
        )
        if run.workers.all_reduce_max(int(left <= 0)):
            raise InputError(
                f"time_limit {limit:,.0f} s: too short: {costs}; start again with more time"
            )
        say(f"time limit {limit:,.0f} s: {costs}; {left:,.0f} s are left for training")
    return left

"""A study within some minutes: a run begins only if it will end in time, by its estimate."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic

import torch

from isotune.lab.studies.estimate import CPU, GPU, seconds
from isotune.lab.studies.plan import PlannedRun


class Budget:
    """Decides which runs there is time for. Estimates are scaled by the time that finished runs really took.

    Attributes:
        minutes: the time for all runs.
        left_out: the runs for which there was no time.
    """

    def __init__(self, minutes: float, tasks: Iterable[str]) -> None:
        self.minutes = minutes
        self.left_out: list[PlannedRun] = []
        self._end = monotonic() + 60 * minutes
        self._tasks = tuple(tasks)
        self._machine = GPU if torch.cuda.is_available() else CPU
        self._begun: dict[PlannedRun, float] = {}
        self._estimated = self._measured = 0.0  # seconds of the runs that have finished

    def admit(self, run: PlannedRun) -> bool:
        """Whether there is time for this run. If so, it counts as begun now."""
        now = monotonic()
        scale = self._measured / self._estimated if self._estimated else 1.0
        if now + scale * self._estimate(run) > self._end:
            self.left_out.append(run)
            return False
        self._begun[run] = now
        return True

    def finished(self, run: PlannedRun) -> None:
        """Compares a finished run with its estimate."""
        self._measured += monotonic() - self._begun.pop(run)
        self._estimated += self._estimate(run)

    def _estimate(self, run: PlannedRun) -> float:
        return seconds(run, self._tasks, self._machine)

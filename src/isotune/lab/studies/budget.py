"""A study within some minutes: a run is begun only if it will be over by then, by its estimate."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic

import torch

from isotune.lab.studies.estimate import CPU, GPU, seconds
from isotune.lab.studies.plan import Run


class Budget:
    """Says which runs there is time for. Estimates are scaled by how long the runs that are over took.

    Attributes:
        minutes: as given.
        left_out: the runs for which there was no time.
    """

    def __init__(self, minutes: float, tasks: Iterable[str]) -> None:
        self.minutes = minutes
        self.left_out: list[Run] = []
        self._end = monotonic() + 60 * minutes
        self._tasks = tuple(tasks)
        self._machine = GPU if torch.cuda.is_available() else CPU
        self._begun: dict[Run, float] = {}
        self._estimated = self._took = 0.0

    def admits(self, run: Run) -> bool:
        """Whether there is time for this run, which begins now if there is."""
        now = monotonic()
        scale = self._took / self._estimated if self._estimated else 1.0
        if now + scale * self._estimate(run) > self._end:
            self.left_out.append(run)
            return False
        self._begun[run] = now
        return True

    def ended(self, run: Run) -> None:
        """Learns from a run that is over."""
        self._took += monotonic() - self._begun.pop(run)
        self._estimated += self._estimate(run)

    def _estimate(self, run: Run) -> float:
        return seconds(run, self._tasks, self._machine)

"""The candidates of a stage that is over, and the choice among them.

Fine-tuning moves weights from a start to an end. The weights between them are encoders too, and
often better ones than the end (WiSE-FT, Wortsman et al., 2022): `start + share * (end - start)`. So
one training gives candidates of several strengths. The start and the best step that was evaluated
are candidates too.

With dev data, the gentlest candidate is kept that the best one doesn't beat by more than chance.
Gentle is what is near the start. Without dev data, the share that the recipe names first is kept.
A candidate that loses more on general pairs than `most_forgotten`, or whose vectors can't be
scored, is not kept.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from isotune.encoder.encoder import Encoder
from isotune.engine.step import Parts
from isotune.errors import UselessVectors
from isotune.evaluation.run_results import place_of_step
from isotune.evaluation.vectors import Floats
from isotune.files import inside
from isotune.recipes import TrainingOptions
from isotune.training.recorder import RunContext
from isotune.training.run_folder import (
    best_file,
    load_parts,
    load_tensors,
    save_tensors,
    tensors_of,
)
from isotune.training.selection import Score, Selection

Weights = Mapping[str, Tensor]
"""The tensors of an encoder by name."""


@dataclass(frozen=True)
class Candidate:
    """Weights that a stage may keep."""

    step: int
    """The step of the stage that the weights are of, or on the way to which they are."""

    share: float = 1.0
    """How much of the way from the start to the step they are; 0 is the start."""

    def __str__(self) -> str:
        """What the log says."""
        return place_of_step(self.step, self.share)


START = Candidate(0, 0.0)
"""The encoder before the stage."""


class ScoredCandidate(NamedTuple):
    """A candidate, and what was measured of it."""

    candidate: Candidate

    dev: Score | None
    """The score on the dev data; None without dev data."""

    lost: float | None
    """What is lost on general pairs, Spearman x 100; None where nothing bounds that.

    It is None for a step too: a step is a candidate only where it lost little enough.
    """


class Choice(NamedTuple):
    """The candidate to keep."""

    kept: ScoredCandidate

    why: str
    """Why it is kept, for the log."""


class Candidates:
    """The candidates of a stage that is over."""

    def __init__(
        self, run: RunContext, encoder: Encoder, kept: Parts, selection: Selection
    ) -> None:
        """Takes the encoder, which has the weights of the stage's end.

        `kept` are the parts of a file of kept weights. `selection` knows how encoders are scored.
        """
        self._run = run
        self._encoder = encoder
        self._kept = kept
        self._selection = selection
        self._progress = selection.progress
        self._start = self._read(self._progress.start_file)
        self._end = {name: tensor.clone() for name, tensor in tensors_of(kept).items()}
        self._measured: list[ScoredCandidate] = []

    def keep_one(self) -> None:
        """Measures candidates, and makes the weights of one those that the stage keeps.

        The encoder then has the weights of the stage's end again.
        """
        choice = self._choose()
        self._record(choice)
        candidate = choice.kept.candidate
        weights = self._weights(candidate)
        load_parts(self._end, self._kept)
        progress = self._progress
        progress.chosen = True
        progress.best_share = candidate.share
        progress.best_step = progress.offset + candidate.step
        progress.best_file = best_file(progress.stage, candidate.step, candidate.share)
        if not candidate.share:
            progress.best_step = progress.start_step
            progress.best_share = progress.start_share
            progress.best_file = progress.start_file
        progress.start_file = ""
        if choice.kept.dev is not None:
            progress.best_score = choice.kept.dev.value
        path = self._run.folder / progress.best_file
        self._run.workers.on_rank_zero(save_tensors, path, weights)

    def _choose(self) -> Choice:
        if self._selection.scorer is None:
            return self._choose_without_dev()
        return self._choose_by_dev()

    def _choose_without_dev(self) -> Choice:
        """The share that stands first, or else the next gentler candidate that is allowed.

        Smaller shares come first, then the last step that was allowed, then the start.
        """
        first, *others = self._shares
        smaller = sorted((share for share in others if share < first), reverse=True)
        step = self._progress.step
        measured = self._measure(Candidate(step, first))
        if measured is not None:
            return Choice(measured, "its share stands first, and no dev data choose")
        gentler = [Candidate(step, share) for share in smaller]
        gentler += [*self._steps(), START]
        while measured is None:
            measured = self._measure(gentler.pop(0))
        return Choice(measured, "the log says why bolder candidates can't be kept")

    def _choose_by_dev(self) -> Choice:
        """The gentlest candidate that the best one does not beat by more than chance."""
        allowed = self._measure_all()
        scores = []
        samples = []
        for measured in allowed:
            assert measured.dev is not None
            assert measured.dev.samples is not None
            scores.append(measured.dev.value)
            samples.append(measured.dev.samples)
        confidence = self._selection.options.confidence
        kept = gentlest_of_the_best(np.stack(samples), scores, confidence)
        best = int(np.argmax(scores))
        if kept == best:
            return Choice(allowed[kept], _why_the_best(allowed[best], confidence))
        lead = samples[best] - samples[kept]
        return Choice(allowed[kept], _why_not_the_best(allowed[best], lead, confidence))

    def _measure_all(self) -> list[ScoredCandidate]:
        """The candidates that may be kept. Gentle ones stand first: the start is number 0."""
        candidates = [START, *self._steps()]
        for share in self._shares:
            candidates.append(Candidate(self._progress.step, share))
        candidates.sort(key=lambda each: distance(self._start, self._weights(each)))
        allowed = []
        for candidate in candidates:
            measured = self._measure(candidate)
            if measured is not None:
                allowed.append(measured)
        return allowed

    @property
    def _shares(self) -> Sequence[float]:
        shares = self._selection.options.interpolations
        assert shares is not None
        return shares

    def _steps(self) -> list[Candidate]:
        """The best step that was evaluated, if it is neither the start nor named as a share."""
        progress = self._progress
        step = progress.best_step - progress.offset
        is_end = step == progress.step and 1.0 in self._shares
        if progress.best_file == progress.start_file or is_end:
            return []
        return [Candidate(step)]

    def _weights(self, candidate: Candidate) -> Weights:
        progress = self._progress
        if not candidate.share:
            return self._start
        if candidate.step < progress.step:
            return self._read(best_file(progress.stage, candidate.step))
        return interpolate(self._start, self._end, candidate.share)

    def _read(self, name: str) -> Weights:
        weights, _ = load_tensors(inside(self._run.folder, name))
        return weights

    def _measure(self, candidate: Candidate) -> ScoredCandidate | None:
        """Measures a candidate. The encoder has the weights of this candidate afterwards.

        None if the candidate can't be kept: its vectors can't be scored, or it loses too much.
        """
        load_parts(self._weights(candidate), self._kept)
        self._encoder.eval()
        recorder = self._run.recorder
        try:
            measured = self._score(candidate)
        except UselessVectors as error:
            recorder.say(f"candidate, {candidate}: it can't be kept, because {error}")
            return None
        self._measured.append(measured)
        told = _told(measured)
        if self._is_allowed(measured):
            recorder.say(told)
            return measured
        recorder.say(f"{told}; it can't be kept, because it loses more than most_forgotten")
        return None

    def _score(self, candidate: Candidate) -> ScoredCandidate:
        """Scores a candidate, whose weights the encoder has."""
        selection = self._selection
        dev = None
        if selection.scorer is not None:
            dev = selection.scorer(self._encoder)
        lost = None
        if selection.general is not None and self._is_between(candidate):
            lost = selection.lost(selection.general(self._encoder).value)
        return ScoredCandidate(candidate, dev, lost)

    def _is_between(self, candidate: Candidate) -> bool:
        """Whether a candidate is on the way from the start to the end, or the end.

        The start and the steps before the end are allowed already.
        """
        return candidate.share > 0 and candidate.step == self._progress.step

    def _is_allowed(self, measured: ScoredCandidate) -> bool:
        bound = self._selection.options.most_forgotten
        return measured.lost is None or bound is None or measured.lost <= bound

    def _record(self, choice: Choice) -> None:
        progress = self._progress
        stage = progress.stage + 1
        recorder = self._run.recorder
        for measured in self._measured:
            values: dict[str, Any] = {}
            if measured.dev is not None:
                values = {"metric": measured.dev.name, "score": measured.dev.value}
            if measured.lost is not None:
                values["lost"] = measured.lost
            recorder.record(
                "candidate",
                stage=stage,
                step=progress.offset + measured.candidate.step,
                share=measured.candidate.share,
                kept=measured is choice.kept,
                **values,
            )
        recorder.say(f"stage {stage} keeps {choice.kept.candidate}: {choice.why}")


def _told(measured: ScoredCandidate) -> str:
    """What the log says of a candidate."""
    parts = []
    if measured.dev is not None:
        parts.append(f"dev {measured.dev.name} {100 * measured.dev.value:.2f}")
    if measured.lost is not None:
        # 0 - lost is never -0.
        parts.append(f"general pairs {0 - measured.lost:+.2f}")
    told = f"candidate, {measured.candidate}"
    if parts:
        told += f": {', '.join(parts)}"
    return told


def _why_the_best(best: ScoredCandidate, confidence: float) -> str:
    """Why the candidate with the best score is kept."""
    if best.candidate == START:
        return "no candidate that can be kept scores higher on the dev data"
    why = "it scores best on the dev data"
    if confidence:
        why += ", and beats every gentler candidate by more than chance"
    return why


def _why_not_the_best(best: ScoredCandidate, lead: Floats, confidence: float) -> str:
    """Why a gentler candidate is kept, over which the best one has this lead [resamples]."""
    low, high = 100 * np.quantile(lead, _ends(confidence))
    return (
        f"{best.candidate} scores higher on the dev data, which may be chance (the difference is "
        f"{low:+.2f} to {high:+.2f}, {100 * confidence:g} % interval)"
    )


def count_candidates(options: TrainingOptions, has_dev: bool) -> int:
    """How many candidates a stage measures when it is over, unless the first is not allowed."""
    if options.interpolations is None:
        return 0
    if not has_dev:
        return 1
    # The start and the best step are candidates too.
    return len(options.interpolations) + 2


def interpolate(start: Weights, end: Weights, share: float) -> dict[str, Tensor]:
    """The weights at a share of the way from the start to the end (WiSE-FT, section 3).

    What is no floating-point number is that of the end.
    """
    between = {}
    for name, value in end.items():
        if value.is_floating_point():
            between[name] = torch.lerp(start[name], value, share)
        else:
            between[name] = value
    return between


def distance(first: Weights, second: Weights) -> float:
    """The Euclidean distance of all floating-point weights."""
    total = 0.0
    for name, value in first.items():
        if value.is_floating_point():
            total += float((value - second[name]).square().sum(dtype=torch.float64))
    return math.sqrt(total)


def gentlest_of_the_best(samples: Floats, scores: Sequence[float], confidence: float) -> int:
    """The number of the first of C candidates that the best one does not beat by more than chance.

    `samples` are the scores [C, resamples] of the candidates on the same samples of the dev data,
    and `scores` those on the dev data. A candidate is beaten where the interval of the difference,
    which has this `confidence`, is above 0. Gentle candidates stand first. With a confidence of 0,
    any lead counts: the best score decides.
    """
    best = int(np.argmax(scores))
    if not confidence:
        return best
    leads = samples[best] - samples  # [C, resamples]
    lowest, _ = np.quantile(leads, _ends(confidence), axis=1)  # [C]
    return int(np.argmin(lowest > 0))


def _ends(confidence: float) -> tuple[float, float]:
    """The quantiles at which the interval of a confidence ends."""
    outside = (1 - confidence) / 2
    return outside, 1 - outside

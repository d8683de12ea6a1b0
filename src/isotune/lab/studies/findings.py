"""What a study found, in sentences: its verdict, and each comparison."""

from collections.abc import Sequence
from typing import NamedTuple

from isotune.lab.studies.comparison import Comparison
from isotune.lab.studies.lines import Line
from isotune.lab.studies.study import Study
from isotune.lab.studies.wording import is_share, measured_digits

NO_ARM = "No arm is better than the start"
SHOWN = 8
"""More comparisons without a clear difference are folded."""


class Findings(NamedTuple):
    """The sentences of a study's page."""

    verdict: str

    clear: list[str]
    """The comparisons with a difference beyond chance, or all if they are few."""

    unclear: list[str]
    """The other comparisons."""

    untrained: list[str]
    """The arms whose runs all kept the start, so that there is nothing to compare."""


def findings(study: Study, lines: Sequence[Line], comparisons: Sequence[Comparison]) -> Findings:
    """What a study found, by the lines of its table and their comparisons."""
    clear = []
    unclear = []
    for comparison in comparisons:
        sentence = comparison_sentence(study, comparison)
        if comparison.differs:
            clear.append(sentence)
        else:
            unclear.append(sentence)
    verdict = study.title
    if comparisons:
        verdict = [*clear, *unclear][0]
    elif is_untrained(lines):
        verdict = f"{NO_ARM}."
    if len(unclear) <= SHOWN:
        clear += unclear
        unclear = []
    untrained = []
    for line in lines:
        if line.kept_start:
            untrained.append(
                f"{line.title} equals the start: no step was better, so its runs kept the start."
            )
    return Findings(verdict, clear, unclear, untrained)


def is_untrained(lines: Sequence[Line]) -> bool:
    """Whether all arms that were trained kept their start."""
    trained = [line for line in lines if "kept_step" in line.values]
    return bool(trained) and all(line.kept_start for line in trained)


def comparison_sentence(study: Study, comparison: Comparison) -> str:
    """A comparison in a sentence: which line is ahead by how much, and how sure that is."""
    seeds = _seeds(comparison.n)
    if not comparison.difference:
        return (
            f"No difference: {comparison.first} and {comparison.second} have equal scores{seeds}."
        )
    ahead, behind = comparison.first, comparison.second
    if comparison.difference < 0:
        ahead, behind = behind, ahead
    points = ""
    if is_share(study, study.judged) and study.scale == 100:
        points = " points"
    size = measured_digits(study, study.judged, abs(comparison.difference))
    sentence = f"{ahead} is {size}{points} ahead of {behind}{seeds}"
    tested = _tests(study, comparison)
    if not tested:
        return f"{sentence}; a single value can't be tested."
    if not comparison.differs:
        sentence = f"No clear difference: {sentence}"
    return f"{sentence}{tested}."


def _seeds(count: int) -> str:
    match count:
        case 0:
            return ""
        case 1:
            return " at one seed"
    return f" at {count} seeds"


def _tests(study: Study, comparison: Comparison) -> str:
    """The test over seeds and the interval over pairs, of those that were made."""
    words = ""
    test = comparison.test
    if test and comparison.p is not None:
        p = f"p = {comparison.p:.3f}"
        if comparison.p < 0.001:
            p = "p below 0.001"
        if comparison.p > test.p:
            p += " corrected"
        interval = _interval(study, comparison, test.low, test.high)
        words += f" ({interval}, {p})"
    if comparison.pairs:
        low, high = comparison.pairs
        words += f"; over test pairs, {_interval(study, comparison, low, high)}"
    return words


def _interval(study: Study, comparison: Comparison, low: float, high: float) -> str:
    """The interval of how far the line ahead is ahead."""
    if comparison.difference < 0:
        low, high = -high, -low
    ends = [measured_digits(study, study.judged, end) for end in (low, high)]
    return f"95 % interval {ends[0]} to {ends[1]}"

"""What a study found, in sentences: its verdict, and each comparison."""

from collections.abc import Sequence
from typing import NamedTuple

from isotune.lab.studies.comparison import Comparison
from isotune.lab.studies.lines import Line, highest_line
from isotune.lab.studies.study import Study
from isotune.lab.studies.wording import is_share, measured_digits, score_title

NO_ARM = "No arm is better than the start"
SHOWN = 8
"""Of more comparisons than these, the page shows some and folds the others."""


class Findings(NamedTuple):
    """The sentences of a study's page."""

    verdict: str

    shown: list[str]
    """The comparisons that the page shows: those of the best line where they are many."""

    folded: list[str]
    """The other comparisons."""

    untrained: list[str]
    """The arms whose runs all kept the start, so that there is nothing to compare."""


def findings(study: Study, lines: Sequence[Line], comparisons: Sequence[Comparison]) -> Findings:
    """What a study found, by the lines of its table and their comparisons."""
    # A difference beyond chance comes before the others.
    ordered = sorted(comparisons, key=lambda comparison: not comparison.differs)
    best = best_line(study, lines)
    shown = []
    folded = []
    for comparison in ordered:
        sentence = comparison_sentence(study, comparison)
        if _is_shown(comparison, len(ordered), best):
            shown.append(sentence)
        else:
            folded.append(sentence)
    untrained = []
    for line in lines:
        if line.kept_start:
            untrained.append(
                f"{line.title} equals the start: no step was better, so its runs kept the start."
            )
    return Findings(_verdict(study, lines, ordered, best), shown, folded, untrained)


def best_line(study: Study, lines: Sequence[Line]) -> Line | None:
    """The line that alone has the highest score that the study judges by.

    It is None where the study ranks its lines in groups, or judges by a score such as seconds.
    """
    if study.rivals or not is_share(study, study.judged):
        return None
    return highest_line(lines, study.judged)


def _is_shown(comparison: Comparison, count: int, best: Line | None) -> bool:
    """Whether the page shows a comparison, which is one of so many, without being asked."""
    if count <= SHOWN:
        return True
    if best is None:
        return comparison.differs
    return bool(comparison.rival_of(best.title))


def _verdict(
    study: Study, lines: Sequence[Line], ordered: Sequence[Comparison], best: Line | None
) -> str:
    """The study's main finding in a sentence."""
    if not ordered:
        return f"{NO_ARM}." if is_untrained(lines) else study.title
    if best is None:
        return comparison_sentence(study, ordered[0])
    of_best = [comparison for comparison in ordered if comparison.rival_of(best.title)]
    if len(of_best) < 2:
        return comparison_sentence(study, [*of_best, *ordered][0])
    unclear = [comparison.rival_of(best.title) for comparison in of_best if not comparison.differs]
    score = best.measured(study, study.judged)
    highest = f"{best.title} has the highest {score_title(study.judged)}, {score}"
    if not unclear:
        return f"{highest}, clearly ahead of all others."
    if len(unclear) == len(of_best):
        return f"{highest}, but is clearly ahead of no other."
    return f"{highest}, but is not clearly ahead of {'; '.join(unclear)}."


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
    points = ""
    if is_share(study, study.judged) and study.scale == 100:
        points = " points"
    size = measured_digits(study, study.judged, abs(comparison.difference))
    sentence = f"{comparison.ahead} is {size}{points} ahead of {comparison.behind}{seeds}"
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

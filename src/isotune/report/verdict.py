"""What a report says first: which encoder to use, and the differences from the start in words."""

from isotune.evaluation.results import interval_ends
from isotune.evaluation.run_results import WORSE, DevGain, Gain, RunEvaluation, Verdict
from isotune.report.titles import score_title, score_titles

HAD = "what you had"
"""What stands in the advice for the encoder of before, where the start is this encoder."""

ADVICE = {
    "NEW": "Use the new encoder",
    "KEEP": f"Keep {HAD}",
    "CAN'T TELL": f"Keep {HAD} for now. These data leave open which encoder is better",
}
"""The verdicts as the page says them."""


def advised(evaluation: RunEvaluation) -> str:
    """The verdict and its reason, without the full stop."""
    return f"{advice(evaluation.verdict)}: {reason(evaluation)}"


def advice(verdict: Verdict) -> str:
    """The verdict as the page says it, without the reason."""
    said = ADVICE[verdict.word]
    if verdict.had == "the start":
        return said
    return said.replace(HAD, verdict.had)


def reason(evaluation: RunEvaluation) -> str:
    """The reason of the verdict, with the titles of tasks."""
    verdict = evaluation.verdict
    why = verdict.why
    if verdict.rests_on == "losses":
        why = f"{WORSE} {', '.join(map(score_title, evaluation.worse))}"
    if verdict.but:
        why += f", but {evaluation.shortcomings(score_title)}"
    return why


def helped(evaluation: RunEvaluation) -> bool:
    """Whether the run made something to use: a new encoder, or a classifier."""
    verdict = evaluation.verdict
    is_useful = verdict.word == "NEW" or bool(evaluation.classified)
    return is_useful and not verdict.but


def outcome_sentences(evaluation: RunEvaluation) -> list[str]:
    """How good a classifier is, and how near a student is to its teachers, in sentences."""
    sentences = []
    for said in (evaluation.classifier_words(), evaluation.beside_words(score_title)):
        if said:
            sentences.append(f"{said[0].upper()}{said[1:]}.")
    return sentences


def gain_title(gain: Gain) -> str:
    """What a difference was measured on, as the name of a bar."""
    match gain.kind:
        case "labels":
            return "Labelled dev rows"
        case "dev":
            return f"Dev data {score_title(gain.name)}{gain.choice.removesuffix(',')}"
        case "agreement":
            return "Agreement with the teachers"
    return f"{score_title(gain.name)}{gain.measure}"


def gain_sentence(gain: Gain) -> str:
    """A difference in a sentence: the scores before and after, and the interval."""
    subjects = {
        "labels": "The score on the labelled dev rows, by layers that start untrained,",
        "dev": f"The score on the dev data {score_title(gain.name)}{gain.choice}",
        "agreement": f"The agreement with the teachers on {gain.name}",
        "task": f"The score on {score_title(gain.name)}{gain.measure}",
    }
    subject = subjects[gain.kind]
    if gain.after == gain.before:
        return f"{subject} stayed at {100 * gain.before:.2f}."
    verb = "rose"
    if gain.after < gain.before:
        verb = "fell"
    moved = f"{subject} {verb} from {100 * gain.before:.2f} to {100 * gain.after:.2f}"
    by = f"{change_words(gain.before, gain.after)} points"
    interval = interval_words(gain)
    if interval:
        return f"{moved}: {by}, {interval}."
    return f"{moved}: {by}."


def interval_words(gain: Gain) -> str:
    """The 95 % interval of a difference x 100; empty if there is none."""
    if gain.low is None or gain.high is None:
        return ""
    return f"95 % interval {interval_ends(gain.low, gain.high)}"


def change_words(before: float, after: float) -> str:
    """The difference of two scores as they are printed, x 100."""
    return f"{round(100 * after, 2) - round(100 * before, 2):+.2f}"


def shared_scores(comparison: RunEvaluation) -> dict[str, tuple[float, float]]:
    """The first score of each task and each average, before and after, by its title.

    The measures of a vector space are left out: they don't lie on the scale of the others.
    """
    before = comparison.before.scores()
    after = comparison.after.scores()
    names = [task.name for task in comparison.after.tasks if task.kind != "geometry"]
    names += comparison.after.averages
    scores = {}
    for name, title in score_titles(names).items():
        if name in before and name in after:
            scores[title] = (before[name], after[name])
    return scores


def _open_questions_of_search(evaluation: RunEvaluation) -> list[str]:
    """What would tell more of an encoder that asks in the index of its teacher."""
    if evaluation.searches:
        return []
    return ["To measure the search, give questions and answers (--tasks retrieval:FILE)."]


def _open_questions_of_dev(verdict: Verdict, dev: DevGain) -> list[str]:
    """What would tell more, where the dev data speak for the user's text."""
    if verdict.word == "CAN'T TELL":
        return ["To be sure, score more pairs with isotune label."]
    if dev.chose_step:
        return [f"The {dev.unit} that choose the step show a little more gain than others would."]
    return []


def open_questions(evaluation: RunEvaluation | None, has_examples: bool) -> list[str]:
    """What would tell more, in sentences; empty if nothing is open."""
    if evaluation is None or evaluation.labels or not evaluation.selected_step:
        return []
    if evaluation.index_of:
        return _open_questions_of_search(evaluation)
    own_dev = evaluation.own_dev
    if own_dev:
        return _open_questions_of_dev(evaluation.verdict, own_dev)
    if evaluation.own_tasks:
        return []
    use = "train with --dev"
    if evaluation.dev and not evaluation.dev.chose_step:
        use = "name them to isotune evaluate --tasks"
    advice = [f"To measure the encoder, score some pairs with isotune label, and {use}."]
    if has_examples:
        advice.insert(0, "Read the examples below.")
    return advice

"""What the end of a run compares: the start and the encoder kept, and the verdict on them.

`RunEvaluation` is the run folder's `evaluation.json`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple, TypeAlias

from pydantic import ConfigDict, Field, computed_field

from isotune.errors import counted
from isotune.evaluation.results import (
    Correlation,
    Cost,
    Difference,
    Evaluation,
    Finite,
    Result,
    RetrievalResult,
    TaskResult,
    TransferResult,
    interval_ends,
    score_words,
    without_folders,
)

WORDS = {"NEW": "NEW", "KEEP": "KEEP {had}", "CAN'T TELL": "CAN'T TELL, keep {had} for now"}
"""The verdicts as the log says them; `had` is what the user had before."""

UNJUDGED = "nobody has scored pairs of this text"
CLASSIFIED = "no stage tunes the encoder"
NOT_TUNED = "tuning the encoder gains no more than chance"
WITH_CLASSIFIER = "the start, with the new classifier on its vectors"
TAUGHT = f"it agrees more with its teachers, but {UNJUDGED}"
LIKE_TEACHERS = "it agrees more with its teachers than its start does, by more than chance"
NOT_TAUGHT = "it agrees no more with its teachers than the start"
DEV_GAINS_NOTHING = "the dev data gain nothing"
WORSE = "it is worse by more than chance on"
TRAINED_ON = "it was trained on the rows that judge it; keep some rows out of the training"

LEAST_SHARED = 0.1
"""Of a smaller score of the teachers, no share is told; it is 10 in tables, which print x 100."""

Reason: TypeAlias = Literal["losses", "gains", "dev", "agreement", "nothing"]
"""What a verdict rests on: tasks with a loss, tasks with a gain, the dev data, the agreement with
the teachers, or no such score."""

FIRST_MEASURE = {"retrieval": " (nDCG@10)", "transfer": " (accuracy)"}
"""What the scores of tasks of these kinds are."""


class DevGain(Result):
    """The score on the dev data, of the start and of the encoder kept, and how sure the gain is."""

    name: str

    unit: Literal["pairs", "queries", "texts"]
    """What the rows are: they are scored by Spearman's correlation, by nDCG, or by accuracy."""

    rows: int
    """How many rows there are."""

    before: Correlation
    after: Correlation

    low: Finite
    """The lower end of the gain's 95 % interval, by the bootstrap over the rows."""

    high: Finite
    """The upper end of this interval."""

    chose_step: bool = True
    """Whether these data chose the step; false where the last step is kept whatever they say."""


class Agreement(Result):
    """How much an encoder agrees with its teachers about which held-out sentences are similar.

    Agreement is Spearman's correlation of the encoder's cosines with the teachers', over pairs of
    near sentences and pairs at random.
    """

    sentences: int
    """How many sentences were held out of the training and are compared."""

    pairs: int

    before: Correlation
    """The agreement of the start."""

    after: Correlation
    """The agreement of the encoder kept."""

    low: Finite
    """The lower end of the gain's 95 % interval, by the bootstrap over the sentences."""

    high: Finite
    """The upper end of this interval."""

    teachers: Cost
    student: Cost


class WithWords(Result):
    """The score of a retrieval task where a ranking by words (BM25) joins that by vectors."""

    score: Finite
    """The score of the joined ranking."""

    gain: Difference
    """How much higher it is than the score of the vectors alone."""

    @property
    def words(self) -> str:
        """The task, and its score without and with words."""
        name = without_folders(self.gain.score)
        alone = 100 * (self.score - self.gain.difference)
        measure = FIRST_MEASURE["retrieval"]
        return f"{name}{measure} {alone:.2f} -> {100 * self.score:.2f} ({self.gain.words})"


class BesideTeachers(Result):
    """The encoder kept beside its teachers, on the tasks of the run.

    Several teachers are one encoder, whose cosine of two texts is the mean of their cosines.
    """

    names: tuple[str, ...]
    """The names of the teachers."""

    evaluation: Evaluation
    """The scores of the teachers."""

    differences: tuple[Difference, ...]
    """How much higher the encoder kept scores, by task and group."""


class Verdict(Result):
    """Which encoder to use after a run, and why."""

    word: Literal["NEW", "KEEP", "CAN'T TELL"]
    """The encoder kept; what the user had; or the scores don't say."""

    why: str

    had: str = "the start"
    """What to keep unless the word is NEW: the start, or the teachers of a student.

    A start may be kept with the new classifier of the run.
    """

    but: str = ""
    """What speaks against the encoder kept, although it is advised, and what is better."""

    rests_on: Annotated[Reason, Field(exclude=True, repr=False)] = "nothing"
    """The scores that decided. The file of a run says nothing of this."""

    def __str__(self) -> str:
        said = f"{WORDS[self.word].format(had=self.had)}: {self.why}"
        if self.but:
            said += f", but {self.but}"
        return said


class Shortfall(NamedTuple):
    """A task on which the encoder kept is worse by more than chance than words alone."""

    score: str
    """The name of the score in `Evaluation.scores`."""

    measure: str
    """What is measured, such as " (nDCG@10)"."""

    kept: float
    """The score of the encoder kept."""

    rivals: Mapping[str, float]
    """The scores of the controls that are better by more than chance."""

    teachers: Mapping[str, float]
    """The score of the teachers, if it is better by more than chance too."""

    is_search: bool
    """Whether the task is one of search."""

    @property
    def remedy(self) -> str:
        """What to do about it; empty if nothing is known to be better."""
        remedies = []
        if self.is_search:
            remedies.append("search by words beside the vectors (--hybrid)")
        if self.teachers:
            remedies.append("use the teacher")
        return ", or ".join(remedies)

    def words(self, name: str) -> str:
        """What the log or a page says, with its name of the task."""
        better = {**self.rivals, **self.teachers}
        rivals = [f"{rival} ({100 * score:.2f})" for rival, score in better.items()]
        said = f"{name}{self.measure} is {100 * self.kept:.2f}, below {' and '.join(rivals)}"
        if self.remedy:
            said += f": {self.remedy}"
        return said


class Nearness(NamedTuple):
    """A score of the encoder kept beside that of its teachers."""

    score: str
    """The name of the score in `Evaluation.scores`."""

    measure: str
    """What is measured, such as " (nDCG@10)"."""

    student: float
    teachers: float

    difference: Difference

    @property
    def share(self) -> str:
        """Which share of the teachers' score the student has.

        It is empty below `LEAST_SHARED`: a share of nearly nothing tells nothing.
        """
        if self.teachers < LEAST_SHARED:
            return ""
        return f"{100 * self.student / self.teachers:.0f} %"

    @property
    def both(self) -> str:
        """Both scores x 100."""
        return f"{100 * self.student:.2f} of {100 * self.teachers:.2f}"

    def words(self, name: str) -> str:
        """Both scores x 100, with the interval of the difference and this name of the task."""
        share = ""
        if self.share:
            share = f", {self.share}"
        ends = interval_ends(self.difference.low, self.difference.high)
        interval = f"(student minus teacher, 95 % interval {ends})"
        return f"{name}{self.measure} {self.both}{share} {interval}"

    def part(self, name: str) -> str:
        """The share, or else both scores x 100, with this name of the task."""
        return f"{self.share or self.both} on {name}"


class Gain(NamedTuple):
    """A score before and after, and the 95 % interval of the difference, where there is one."""

    kind: Literal["labels", "dev", "agreement", "task"]

    name: str
    """The task, the dev data, or the number of held-out sentences."""

    before: float
    after: float
    low: float | None = None
    high: float | None = None

    measure: str = ""
    """The score of a task, if it is no correlation, such as " (nDCG@10)"."""

    interval: str = ""
    """What is said in place of the ends of the interval."""

    chose_step: bool = False
    """Whether it was measured on the dev data that chose the step."""

    @property
    def choice(self) -> str:
        """What follows the name of dev data that chose the step, in a sentence; else empty."""
        if self.chose_step:
            return ", which chose the step,"
        return ""

    @property
    def words(self) -> str:
        """The score x 100 before and after, with the interval of the change, as logs say it."""
        names = {
            "labels": "labelled dev rows, by layers that start untrained,",
            "dev": f"dev data ({self.name}){self.choice}",
            "agreement": f"agreement with the teachers on {self.name}",
            "task": f"{self.name}{self.measure}",
        }
        change = _change(names[self.kind], self.before, self.after)
        if self.low is None or self.high is None:
            return change
        return f"{change} (95 % interval {self.interval or interval_ends(self.low, self.high)})"


class RunEvaluation(Result):
    """A run's `evaluation.json`: the start and the encoder kept, on the same tasks."""

    # The verdict stands in the file too, but it is derived anew.
    model_config = ConfigDict(extra="ignore")

    before: Evaluation
    after: Evaluation

    selected_step: int
    """The step of the encoder kept; 0 is the untouched start."""

    selected_share: float = 1.0
    """How much of the way from the start of its stage to this step the encoder kept is."""

    differences: tuple[Difference, ...] = ()
    """The differences of the encoder kept from the start, by task."""

    dev: DevGain | None = None
    """The gain on the dev data; None without dev data."""

    dev_is_general: bool = False
    """Whether the dev data are the bundled pairs, and so say nothing about the user's text."""

    own_tasks: tuple[str, ...] = ()
    """The tasks and groups that the run was given and that speak for the user's text."""

    trained_on: tuple[str, ...] = ()
    """The tasks and dev data whose rows were trained on, which judge nothing."""

    words_before: tuple[WithWords, ...] = ()
    """What words beside the vectors of the start find, by retrieval task."""

    words_after: tuple[WithWords, ...] = ()
    """What words beside the vectors of the encoder kept find, by retrieval task."""

    agreement: Agreement | None = None
    """The agreement with the teachers; None without teachers, or if it was not measured."""

    beside_teachers: BesideTeachers | None = None
    """The encoder kept beside its teachers; None in a run without teachers."""

    index_of: str = ""
    """The teacher in whose index the encoder kept asks; empty if it gives vectors of its own.

    Then the scores of search are those of its questions among documents by the teacher. The start
    has an index of its own.
    """

    start_is_encoder: bool = True
    """Whether the start is a finished encoder, which a user could keep.

    A language model is none. So the student of such a run is an alternative to its teachers.
    """

    general_losses_count: bool = True
    """Whether a loss counts on a task that does not speak for the user's text."""

    labels: tuple[Finite, Finite] | None = None
    """The mean score on labelled dev rows, before and after, if these rows chose the step."""

    tunes: bool = True
    """Whether a stage tunes the encoder. A classifier leaves the encoder as it is."""

    classified: str = ""
    """The task of the rows set apart whose labels the new classifier predicts.

    It is empty if the run keeps no such classifier.
    """

    ends: tuple[str, ...] = ()
    """Why each stage ended."""

    pooled: str = ""
    """How the start was pooled, if not as its folder says, as `isotune evaluate` pools it."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def verdict(self) -> Verdict:
        """Which encoder to use. Log, report and model card say what stands here.

        The first rule that fits decides:

        1. Labelled rows chose the step, and no task may judge: NEW if these rows are predicted
           better, else KEEP. Chance is not tested.
        2. No stage tunes the encoder, or no step was better than the start: KEEP.
        3. A task or average is worse by more than chance: KEEP. This holds for all tasks: a loss
           on general pairs, or on rows that were trained on, counts too. In a run with teachers,
           a loss counts only on tasks that speak for the user's text.
        4. The dev data gain nothing: KEEP, whatever a task gains.
        5. The agreement with the teachers gains no more than chance: KEEP.
        6. What speaks for the user's text gains more than chance: NEW. Tasks that the run was given
           speak for it, or, if it was given none, the dev data.
        7. No data judge, and the start is a language model: NEW if the agreement with the teachers
           gains more than chance. Nobody would use the start.
        8. CAN'T TELL. A gain in agreement alone says nothing else: the teachers may be wrong.

        After rule 2, an encoder that asks in the index of its teacher has rules of its own
        (`_verdict_of_queries`): in that index, no other encoder but the teacher can take its place.
        """
        judged = self._judged
        but = ""
        if judged.word == "NEW" or self._keeps_start_with_classifier:
            but = self.shortcomings(self._short_name)
        return judged.model_copy(update={"had": self._had, "but": but})

    def shortcomings(self, name: Callable[[str], str]) -> str:
        """What is better than the encoder kept; `name` gives the name of a score.

        It is words alone; or the start with an index of its own, for an encoder that asks in that
        of its teacher.
        """
        found = [each.words(name(each.score)) for each in self.shortfalls]
        start = self.before.scores()
        searches = {each.score for each in self.searches}
        for each in self.differences:
            if each.score in searches and each.high < 0:
                found.append(
                    f"an index of the start finds more on {name(each.score)} "
                    f"({100 * start[each.score]:.2f}): take it if you can make the index again"
                )
        return "; ".join(found)

    @property
    def shortfalls(self) -> list[Shortfall]:
        """The tasks that judge on which the encoder kept is worse than a control."""
        rivals: dict[str, dict[str, float]] = {}
        for control in self.after.controls:
            scores = control.scores()
            for each in control.main_differences:
                if each.high < 0 and each.score in self.own_tasks:
                    rivals.setdefault(each.score, {})[control.name] = scores[each.score]
        kept = self.after.scores()
        found = []
        for score, better in rivals.items():
            shortfall = Shortfall(
                score,
                self.measure_of(score),
                kept[score],
                better,
                self._better_teachers(score),
                is_search=score in self._names_of_searches,
            )
            found.append(shortfall)
        return found

    def _better_teachers(self, score: str) -> dict[str, float]:
        """The teachers' score under their name, if it is higher by more than chance."""
        for each in self.nearness:
            if each.score == score and each.difference.high < 0:
                assert self.beside_teachers is not None
                return {teacher_words(self.beside_teachers.names): each.teachers}
        return {}

    @property
    def _had(self) -> str:
        """What to keep unless the word is NEW."""
        if self._keeps_start_with_classifier:
            return WITH_CLASSIFIER
        if self.beside_teachers is None or not self.is_student:
            return "the start"
        return teacher_words(self.beside_teachers.names)

    @property
    def is_student(self) -> bool:
        """Whether the encoder kept is an alternative to its teachers, and not to its start."""
        if self.beside_teachers is None:
            return False
        return bool(self.index_of) or not self.start_is_encoder

    @property
    def searches(self) -> list[Nearness]:
        """How an encoder that asks in the index of its teacher does in the tasks of search.

        These are the tasks that speak for the user's text. There are none for another encoder.
        """
        if not self.index_of:
            return []
        return self._beside(self._names_of_searches.intersection(self.own_tasks))

    @property
    def _names_of_searches(self) -> set[str]:
        """The tasks of search."""
        return {task.name for task in self.after.tasks if isinstance(task, RetrievalResult)}

    @property
    def _keeps_start_with_classifier(self) -> bool:
        """Whether the encoder kept is the start, and a new classifier reads its vectors."""
        return bool(self.classified) and not self.selected_step

    @property
    def _judged(self) -> Verdict:
        """The verdict by the rules of `verdict`."""
        if self.labels and not self._judging_differences:
            return self._verdict_of_labels(*self.labels)
        if not self.tunes:
            return Verdict(word="KEEP", why=CLASSIFIED)
        if self._keeps_start_with_classifier:
            return Verdict(word="KEEP", why=NOT_TUNED)
        if not self.selected_step:
            return Verdict(word="KEEP", why="no step was better")
        if self.index_of:
            return self._verdict_of_queries()
        if self.worse:
            why = f"{WORSE} {', '.join(self.worse)}"
            return Verdict(word="KEEP", why=why, rests_on="losses")
        if self.dev and self.dev.after <= self.dev.before:
            return Verdict(word="KEEP", why=DEV_GAINS_NOTHING, rests_on="dev")
        if self.agreement and self.agreement.low <= 0:
            return Verdict(word="KEEP", why=NOT_TAUGHT, rests_on="agreement")
        return self._verdict_of_gains()

    def _verdict_of_queries(self) -> Verdict:
        """The verdict on an encoder that asks in the index of its teacher.

        1. Words alone find more by more than chance: KEEP, which is the teacher.
        2. Tasks of search speak for the user's text: NEW, with the share of the teacher's score.
           The user decides whether the speed is worth the rest.
        3. The agreement with the teacher, in its index, gains more than chance over that of the
           start in an index of its own: NEW; else CAN'T TELL.
        """
        index = f"in the index of {teacher_words([self.index_of])}"
        if any(each.is_search for each in self.shortfalls):
            return Verdict(word="KEEP", why=f"{index} it finds less than words alone do")
        if self.searches:
            shares = ", ".join(each.part(self._short_name(each.score)) for each in self.searches)
            why = f"{index} it reaches this part of the teacher's nDCG@10: {shares}"
            return Verdict(word="NEW", why=why, rests_on="gains")
        if self.agreement is None:
            return Verdict(word="CAN'T TELL", why=f"nobody has judged a search {index}")
        if self.agreement.low > 0:
            why = f"{index} it agrees more with the teacher than an index of the start does"
            return Verdict(word="NEW", why=why, rests_on="agreement")
        why = f"{index} it agrees no more with the teacher than an index of the start does"
        return Verdict(word="CAN'T TELL", why=why, rests_on="agreement")

    @property
    def words_that_pay(self) -> list[WithWords]:
        """Where words beside the vectors of the advised encoder find more, by more than chance.

        There are none if they find less in another task.
        """
        advised = self.words_before
        if self.verdict.word == "NEW":
            advised = self.words_after
        if any(each.gain.high < 0 for each in advised):
            return []
        return [each for each in advised if each.gain.low > 0]

    @property
    def worse(self) -> list[str]:
        """The names of the tasks and averages in which a loss counts, and is more than chance."""
        losses = self._judging_differences
        if self.general_losses_count:
            losses = self._counted_differences
        worse = [each for each in losses if each.difference < 0 and not each.tied]
        return [self._short_name(each.score) for each in worse]

    @staticmethod
    def _verdict_of_labels(before: float, after: float) -> Verdict:
        """The verdict where labelled dev rows alone judge."""
        if after > before:
            return Verdict(word="NEW", why="the labelled dev rows are predicted better")
        return Verdict(word="KEEP", why="the labelled dev rows are predicted no better")

    def _verdict_of_gains(self) -> Verdict:
        """The verdict where nothing is worse, by the gains on what speaks for the user's text."""
        gains: list[Difference | DevGain] = [*self._judging_differences]
        if not gains and self.own_dev:
            gains = [self.own_dev]
        if any(gain.low > 0 for gain in gains):
            return Verdict(word="NEW", why="the gain is more than chance", rests_on="gains")
        if gains:
            return Verdict(word="CAN'T TELL", why="the change may be chance")
        if self.trained_on:
            return Verdict(word="CAN'T TELL", why=TRAINED_ON)
        if self.agreement and not self.start_is_encoder:
            return Verdict(word="NEW", why=LIKE_TEACHERS, rests_on="agreement")
        if self.agreement:
            return Verdict(word="CAN'T TELL", why=TAUGHT)
        return Verdict(word="CAN'T TELL", why=UNJUDGED)

    @property
    def _judging_differences(self) -> list[Difference]:
        """The differences on tasks that speak for the user's text."""
        return [each for each in self.differences if each.score in self.own_tasks]

    @property
    def own_dev(self) -> DevGain | None:
        """The gain on the dev data, if these speak for the user's text."""
        if self.dev is None or self.dev_is_general or self.dev.name in self.trained_on:
            return None
        return self.dev

    @property
    def _counted_differences(self) -> list[Difference]:
        """The differences in which a loss counts: those of averages, or else those of tasks.

        The first of several scores of a task counts.
        """
        averages = [each for each in self.differences if each.score in self.after.averages]
        if averages:
            return averages
        tasks = {task.name for task in self.after.tasks}
        return [each for each in self.differences if each.score in tasks]

    def _short_name(self, score: str) -> str:
        """A score's name without the folders of a file, if no other score has that name."""
        short = [without_folders(each.score) for each in self.differences]
        name = without_folders(score)
        return name if short.count(name) == 1 else score

    @property
    def gains(self) -> list[Gain]:
        """The scores that the verdict weighs, before and after.

        Those on the dev data are among the first, because they usually chose the step.
        """
        gains = []
        if self.labels and not self.own_tasks:
            gains.append(Gain("labels", "", *self.labels))
        dev = self.dev
        if dev:
            name = without_folders(dev.name)
            gain = Gain("dev", name, dev.before, dev.after, dev.low, dev.high)
            gains.append(gain._replace(chose_step=dev.chose_step))
        told = self.agreement
        if told:
            name = counted(told.sentences, "held-out sentence")
            if self.index_of:
                name += " in the teacher's index"
            gains.append(Gain("agreement", name, told.before, told.after, told.low, told.high))
        before = self.before.scores()
        after = self.after.scores()
        for each in self._counted_differences:
            gain = Gain(
                "task",
                self._short_name(each.score),
                before[each.score],
                after[each.score],
                each.low,
                each.high,
                self.measure_of(each.score),
                each.words,
            )
            gains.append(gain)
        return gains

    @property
    def headline(self) -> Gain | None:
        """The gain that the verdict rests on.

        It is the first loss that decides; or else the first that speaks for the user's text, those
        beyond chance before others; or else the first of all.
        """
        own = {self._short_name(score) for score in self.own_tasks}
        judging = [gain for gain in self._gains_of("task") if gain.name in own]
        return next(iter([*self._deciding(judging), *judging, *self.gains]), None)

    def _deciding(self, judging: Sequence[Gain]) -> list[Gain]:
        """The gains that the verdict rests on; `judging` are those that may judge."""
        rests_on = self.verdict.rests_on
        if rests_on == "losses":
            return [gain for gain in self._gains_of("task") if gain.name in self.worse]
        if rests_on == "gains":
            return [gain for gain in judging if gain.low is not None and gain.low > 0]
        return self._gains_of(rests_on)

    def _gains_of(self, kind: str) -> list[Gain]:
        return [gain for gain in self.gains if gain.kind == kind]

    @property
    def nearness(self) -> list[Nearness]:
        """The scores that the verdict weighs beside the teachers'; none without teachers."""
        return self._beside({each.score for each in self._counted_differences})

    def _beside(self, scores: Collection[str]) -> list[Nearness]:
        """The scores of these names beside the teachers'; none without teachers."""
        if self.beside_teachers is None:
            return []
        student = self.after.scores()
        teachers = self.beside_teachers.evaluation.scores()
        found = []
        for each in self.beside_teachers.differences:
            if each.score not in scores:
                continue
            nearness = Nearness(
                each.score,
                self.measure_of(each.score),
                student[each.score],
                teachers[each.score],
                each,
            )
            found.append(nearness)
        return found

    def score_words(self, score: str) -> str:
        """The name of a score with what is measured, as the log says it."""
        return f"{score_words(score)}{self.measure_of(score)}"

    def measure_of(self, score: str) -> str:
        """What the score of a task is, if it is no correlation, such as " (nDCG@10)"."""
        if self.index_of and score in self._names_of_searches:
            return " (nDCG@10 in the teacher's index)"
        kinds = {task.name: task.kind for task in self.after.tasks}
        return FIRST_MEASURE.get(kinds.get(score, ""), "")

    def beside_words(self, name: Callable[[str], str] | None = None) -> str:
        """How near the encoder kept is to its teachers, and how fast; empty without teachers.

        `name` gives the name of a score; by default, it is that of the log.
        """
        if self.beside_teachers is None:
            return ""
        called = name or self._short_name
        parts = [each.words(called(each.score)) for each in self.nearness]
        told = self.agreement
        if told:
            parts.append(speed_words(told))
        return f"beside {teacher_words(self.beside_teachers.names)}: {', '.join(parts)}"

    @property
    def changes(self) -> list[str]:
        """The scores x 100 before and after, with the interval of each change."""
        return [gain.words for gain in self.gains]

    def classifier_words(self) -> str:
        """How well the new classifier predicts the rows set apart, beside what knows no vectors.

        It is empty if the run keeps no such classifier.
        """
        for task in self.after.tasks:
            if task.name == self.classified:
                return self._words_of_classifier(task)
        return ""

    def _words_of_classifier(self, task: TaskResult) -> str:
        """The scores on the rows set apart; of a label a text, beside those of its rivals."""
        if not isinstance(task, TransferResult):
            values = [f"{name} {100 * value:.2f}" for name, value in task.scores().items()]
            return f"the classifier, on the rows set apart: {', '.join(values)}"
        rivals = []
        if self.selected_step:
            before = self.before.scores()[task.name]
            rivals.append(f"one on the start's vectors {100 * before:.2f}")
        for control in reversed(self.after.controls):
            scores = control.scores()
            if task.name in scores:
                rivals.append(f"{control.name} {100 * scores[task.name]:.2f}")
        rows = counted(task.rows, "row")
        return (
            f"the classifier labels {100 * task.accuracy:.2f} % of {rows} set apart right "
            f"({', '.join(rivals)})"
        )

    @property
    def all_changes(self) -> list[str]:
        """The changes from the start.

        How good a classifier is, and how near a student is to its teachers, comes first.
        """
        said = [self.classifier_words(), self.beside_words(), *self.changes]
        return [words for words in said if words]

    @property
    def place_of_kept(self) -> str:
        """Which encoder was kept, in words."""
        return place_of_step(self.selected_step, self.selected_share)

    @property
    def decision(self) -> str:
        """The verdict and the changes, in one line."""
        verdict = str(self.verdict)
        if not self.selected_step:
            return "; ".join(filter(None, [verdict, self.classifier_words()]))
        return "; ".join([verdict, *self.all_changes])


def teacher_words(names: Sequence[str]) -> str:
    """The teachers as logs name them, such as "the teacher all-minilm"."""
    short = [without_folders(name) for name in names]
    if len(short) == 1:
        return f"the teacher {short[0]}"
    return f"the teachers {' and '.join(short)}"


def speed_words(told: Agreement) -> str:
    """How much faster the student encodes than its teachers do."""
    ratio = told.student.sentences_per_second / told.teachers.sentences_per_second
    speeds = (
        f"{told.student.sentences_per_second:,.0f} sentences a second where the teacher encodes "
        f"{told.teachers.sentences_per_second:,.0f}"
    )
    return f"{ratio:.1f} times as fast ({speeds})"


def place_of_step(step: int, share: float) -> str:
    """Where on its way the training was: a step, or a share of the way to it.

    Step 0 is the start.
    """
    if not step:
        return "the start"
    if share < 1:
        return f"{share:g} of the way to step {step}"
    return f"step {step}"


def _change(name: str, before: float, after: float) -> str:
    """A score's name, and its values x 100."""
    return f"{name} {100 * before:.2f} -> {100 * after:.2f}"

"""The schema of a study file: arms, grid, seeds and tasks, and what a paper prints of them.

Loads no torch.

An arm is a recipe, a method, or a model that is evaluated untrained. Every arm is run at every cell
of the grid with every seed. Options are those of `Recipe.with_options`. An option of the study
applies to the arms that have it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from isotune.bundled import BUNDLED_MODEL
from isotune.data import DATASETS
from isotune.errors import InputError, invalid, unknown
from isotune.lab.analyses import ANALYSES

Value = bool | int | float | str | tuple[bool | int | float | str, ...]
"""The value of an option."""

Cell = Mapping[str, Value]
"""A place in the grid: the options that vary, with their values there."""

RUN_SCORES = ("dev", "test", "kept_step", "steps", "seconds")
"""Scores of a run besides its evaluation.

These are the best dev score, the score of a method's test rows at that step, the step, the number
of steps, and the seconds that the steps took. Of a mean of named parts, "dev:NAME" and "test:NAME"
are the parts.
"""

COSINE = "cosine"
"""The score "cosine:7" is the cosine of pair 7, counted from 0: of the study's `pairs`, or else of
its first task."""

PAIRS = "pairs"
"""Stands for the study's `pairs` where their cosines are kept beside the scores on tasks."""

ENCODING = "encoding"
"""The score "encoding:stsb" is the seconds in which the encoder encodes the sentences of a task."""

PREDICTED = "predicted"
"""The score "predicted:similarity:7" is what the method predicts for row 7 of the dev rows of that
name."""

START = "start:"
"""The score "start:sts" is the STS score of the model that the run started from."""

EVALUATIONS = 10
"""The evaluations of a stage in a study that sets the number of `updates`, or a few more."""

SIZES = ("train", "dev", "test", "texts")
"""The sizes of a dataset that a study can print: rows with a score or label in each split, and
texts in all."""

STUDY_KEYS = frozenset({"model", "seed", "tasks"})
"""Options of a run for which a study has a key of its own."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def from_table(cls, table: Mapping[str, Any], name: str = "study") -> Self:
        """Validates a table; the `name` of its file is told in errors."""
        try:
            return cls.model_validate(table)
        except ValidationError as error:
            raise invalid(name, error) from error


class Arm(_Table):
    """One of the things that a study compares."""

    name: Annotated[str, Field(min_length=1)]
    """The arm's name in tables."""

    recipe: str = ""
    """A recipe of the package, or a TOML file."""

    method: str = ""
    """A method with its default options, instead of a recipe.

    Without either, the model stays untrained.
    """

    data: tuple[str, ...] = ()
    """The sources to train on. They are needed if the recipe names none."""

    model: str = ""
    """The model to start from; the study's model if empty."""

    start: str = ""
    """An earlier arm. This arm starts from that arm's encoder of the same seed and cell."""

    against: str = ""
    """An earlier arm, the only one that this arm is compared with; see `Study.compare`."""

    options: dict[str, Any] = {}
    """Options that differ from the recipe."""

    grid: dict[str, tuple[Value, ...]] | None = None
    """Replaces the study's grid for this arm."""

    added: bool = False
    """Whether a person has added the arm to the study. It is then compared with every arm."""

    @property
    def trained(self) -> bool:
        """Whether the arm trains its model."""
        return bool(self.recipe or self.method)

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        if self.start and self.model:
            raise ValueError(
                f"arm {self.name}: start {self.start} and model {self.model} are both given"
            )
        if not self.trained and (self.data or self.start):
            raise ValueError(
                f"arm {self.name}: data or start is given, but it has no recipe or method to "
                "train by"
            )
        return self


class AddedArms(_Table):
    """The file of arms that a person adds to a study."""

    arms: Annotated[tuple[Arm, ...], Field(min_length=1)]
    """The arms, as in a study's file."""


class Published(_Table):
    """Numbers that a paper prints at one place of its table."""

    arm: str
    """The name of an arm. Any other name adds a line to the table, for reference."""

    at: dict[str, Value] = {}
    """The cell of the grid. Of an analysis: the columns that identify a row of its table."""

    analysis: str = ""
    """The analysis that the numbers belong to; the study's own table if empty."""

    scores: dict[str, float]
    """Each score's value as printed. Of an analysis: each column's value."""

    deviation: dict[str, float] = {}
    """Each score's standard deviation as printed."""

    note: str = ""
    """A remark for the reader."""


class Figure(_Table):
    """A figure that is made of the study's table."""

    kind: Literal["curve", "bars", "points", "matrix"]
    """A curve has a line for each arm. Bars stand for each line of the table, and so do points. A
    matrix is a table whose rows are the first and whose columns are the second values of pairs."""

    y: str
    """The score."""

    x: str = ""
    """The horizontal axis: of a curve an option of the grid, of points another score. Of a matrix,
    the option whose values are pairs."""

    log: bool = False
    """Whether this axis is logarithmic."""


class Study(_Table):
    """A comparison, or a table of a paper."""

    title: str
    """What the study compares, in a line."""

    paper: str = ""
    """The paper's short name; empty if the study is of no paper."""

    source: str = ""
    """Where the published numbers are printed."""

    model: str = BUNDLED_MODEL
    """The published model. Arms that name no other start from it."""

    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0,)
    """Each arm is run with each seed in each cell."""

    tasks: tuple[str, ...] = ()
    """What encoders are evaluated on; names as in `isotune.evaluation.load_tasks`."""

    pairs: tuple[tuple[str, str], ...] = ()
    """Sentences whose cosines the table shows."""

    scores: Annotated[tuple[str, ...], Field(min_length=1)]
    """The table's columns. Each is a key of `Evaluation.scores`, of `averages` or of `RUN_SCORES`;
    or "start:" before such a key; or a score as `COSINE` and `PREDICTED` describe it."""

    classifier_seeds: bool = False
    """Whether SentEval's classifiers have the run's seed.

    An untrained arm is then scored with every seed.
    """

    aggregation: Literal["all", "mean", "wmean"] = "all"
    """How a task's score is made of its subsets."""

    metric: Literal["spearman", "pearson"] = "spearman"
    """Which correlation scores are."""

    judge: str = ""
    """The score by which arms are compared; the first of `scores` if empty."""

    compare: Literal["first", "all"] = "first"
    """Every arm is compared with the first one, or with all others. A single arm's cells are
    compared instead. Where arms name what they are compared `against`, only these arms are
    compared."""

    best: str = ""
    """A score by which the table shows only one cell of each arm: that with the highest mean."""

    averages: dict[str, Annotated[tuple[str, ...], Field(min_length=1)]] = {}
    """Further scores that are means of others, for a paper's own averages."""

    scale: Literal[1, 100] = 100
    """The table prints correlations and accuracies times this: 100, or 1 if the paper prints
    0.760."""

    cost: str = ""
    """How long the study takes, and whether that is measured or estimated."""

    note: str = ""
    """A remark for the reader."""

    options: dict[str, Any] = {}
    """Options that apply to every arm that has them. The sources `data` are the text of every arm
    that names none itself, unless each of its stages names its own."""

    updates: Annotated[int, Field(ge=EVALUATIONS)] | None = None
    """The updates of every training in all, which its stages share equally.

    Every stage then goes on to its last step, and the step is chosen in one way among
    `EVALUATIONS` of them. Unset: each training has its recipe's length.
    """

    stand_ins: bool = False
    """Whether data that stand in for published data are used (`recipes.resolve`)."""

    grid: dict[str, Annotated[tuple[Value, ...], Field(min_length=1)]] = {}
    """The values of options. An arm is run at each combination of the options that it has."""

    arms: tuple[Arm, ...] = ()
    """What is compared."""

    statistics: tuple[str, ...] = ()
    """Datasets whose sizes (`SIZES`), counted, are lines of the table."""

    published: tuple[Published, ...] = ()
    """What the paper prints."""

    figures: tuple[Figure, ...] = ()
    """What is drawn from the table."""

    analyses: tuple[str, ...] = ()
    """Names in `isotune.lab.analyses.ANALYSES`.

    Each is made of every arm's encoder of the first seed.
    """

    analysed: tuple[str, ...] = ()
    """The scored pairs that the analyses look at; those of the published figures if empty."""

    @property
    def judged(self) -> str:
        """The score by which arms are compared."""
        return self.judge or self.scores[0]

    @property
    def models(self) -> list[str]:
        """The published models, each once."""
        return list(dict.fromkeys(arm.model or self.model for arm in self.arms if not arm.start))

    @property
    def axes(self) -> dict[str, list[Value]]:
        """Every option that the study or an arm varies, with all of its values."""
        axes: dict[str, list[Value]] = {}
        grids = [self.grid]
        grids += [arm.grid for arm in self.arms if arm.grid]
        for grid in grids:
            for key, values in grid.items():
                axes[key] = list(dict.fromkeys([*axes.get(key, ()), *values]))
        return axes

    @property
    def timed(self) -> list[str]:
        """The scores that are seconds of encoding."""
        return [score for score in self.scores if score.startswith(f"{ENCODING}:")]

    @property
    def rivals(self) -> dict[str, str]:
        """The arm that each arm is compared with, of the arms that name one."""
        return {arm.name: arm.against for arm in self.arms if arm.against}

    @property
    def added(self) -> set[str]:
        """The names of the arms that a person has added."""
        return {arm.name for arm in self.arms if arm.added}

    def group(self, arm: str) -> str:
        """The name that the arms of a ranking share: the arm they are compared `against`, or ""."""
        if not self.rivals:
            return ""
        return self.rivals.get(arm, arm)

    @field_validator("arms")
    @classmethod
    def _arms_in_order(cls, arms: tuple[Arm, ...]) -> tuple[Arm, ...]:
        names = [arm.name for arm in arms]
        repeated = Counter(names) - Counter(set(names))
        if repeated:
            raise ValueError(f"two arms are called {min(repeated)}")
        earlier: list[str] = []
        earlier_trained: list[str] = []
        for arm in arms:
            if arm.against:
                refuse_unknown(f"arm before {arm.name}", [arm.against], earlier)
            if arm.start:
                refuse_unknown(f"trained arm before {arm.name}", [arm.start], earlier_trained)
            earlier.append(arm.name)
            if arm.trained:
                earlier_trained.append(arm.name)
        return arms

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        given = [*self.axes, *self.options]
        for arm in self.arms:
            given += arm.options
        refuse_study_keys(given)
        refuse_unknown("analysis", self.analyses, ANALYSES)
        refuse_unknown("dataset", self.statistics, DATASETS)
        refuse_unknown("score to judge by", [self.judged], self.scores)
        if self.best:
            refuse_unknown("score of the best cell", [self.best], [*self.scores, *RUN_SCORES])
        for number, published in enumerate(self.published, 1):
            self._check_published(published, f"published {number}")
        for number, figure in enumerate(self.figures, 1):
            refuse_unknown(f"score of figure {number}", [figure.y], self.scores)
            if figure.kind in ("curve", "matrix"):
                refuse_unknown(f"option of the grid in figure {number}", [figure.x], self.axes)
            if figure.kind == "points":
                refuse_unknown(f"score of figure {number}", [figure.x], self.scores)
            if figure.kind == "matrix":
                refuse_single_values(f"figure {number}: {figure.x}", self.axes[figure.x])
        return self

    def _check_published(self, published: Published, place: str) -> None:
        scores = [*published.scores, *published.deviation]
        if published.analysis:
            refuse_unknown(f"analysis in {place}", [published.analysis], self.analyses)
            columns = ANALYSES[published.analysis].columns
            named = [*published.at, *scores]
            refuse_unknown(f"column of {published.analysis} in {place}", named, columns)
        else:
            refuse_unknown(f"option of the grid in {place}", published.at, self.axes)
            refuse_unknown(f"score in {place}", scores, self.scores)


def refuse_study_keys(options: Iterable[str]) -> None:
    """Refuses options for which a study has a key of its own."""
    keys = STUDY_KEYS.intersection(options)
    if keys:
        raise InputError(
            f"{min(keys)} isn't given as an option: a study and its arms have a key for it"
        )


def refuse_single_values(place: str, values: Iterable[Value]) -> None:
    """Refuses values that are no pairs, of an option at this place."""
    for value in values:
        if not isinstance(value, tuple) or len(value) != 2:
            raise InputError(
                f"{place} has the value {value}, and a matrix needs pairs, such as [1, 2]"
            )


def refuse_unknown(kind: str, names: Iterable[str], allowed: Collection[str]) -> None:
    """Refuses names that are not allowed, of this kind in the error."""
    for name in names:
        if name not in allowed:
            raise unknown(kind, name, allowed or ["none"])

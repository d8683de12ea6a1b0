"""The schema of a study file: arms, grid, seeds and tasks, and what a paper prints of them. Loads no torch.

An arm is a recipe, a method, or a model that is evaluated untrained. Every arm is run at every cell of the grid with
every seed. Options are those of `Recipe.with_options`. An option of the study applies to the arms that have it.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from isotune.bundled import BUNDLED_MODEL
from isotune.data import DATASETS
from isotune.errors import invalid, unknown
from isotune.lab.analyses import ANALYSES

Value = bool | int | float | str | tuple[bool | int | float | str, ...]  # of an option
Cell = Mapping[str, Value]  # a place in the grid: the options that vary, with their values there
# Scores of a run besides its evaluation: the best dev score, the score of a method's test rows at that step, the step,
# the number of steps, and the seconds that they took. Of a mean of named parts, "dev:NAME" and "test:NAME" are parts.
RUN_SCORES = ("dev", "test", "kept_step", "steps", "seconds")
# The score "cosine:7" is the cosine of pair 7, from 0: of the study's `pairs`, or else of its first task.
COSINE = "cosine"
# The score "predicted:similarity:7" is what the method predicts for row 7 of the dev rows of that name.
PREDICTED = "predicted"
START = "start:"  # the score "start:sts" is the STS score of the model that the run started from
# The sizes of a dataset that a study can print: rows with a score or label in each split, and texts in all.
SIZES = ("train", "dev", "test", "texts")
STUDY_KEYS = frozenset(
    {"model", "seed", "tasks"}
)  # options of a run for which a study has a key of its own


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Arm(_Table):
    """One of the things that a study compares."""

    name: Annotated[str, Field(min_length=1)]  # its name in tables
    recipe: str = ""  # a recipe of the package, or a TOML file
    # a method with its default options, instead of a recipe. Without either, the model stays untrained.
    method: str = ""
    data: tuple[str, ...] = ()  # sources to train on; needed if the recipe names none
    model: str = ""  # the model to start from; the study's if empty
    start: str = (
        ""  # an earlier arm. This arm starts from that arm's encoder of the same seed and cell.
    )
    against: str = (
        ""  # an earlier arm, the only one that this arm is compared with; see `Study.compare`
    )
    options: dict[str, Any] = {}  # options that differ from the recipe
    grid: dict[str, tuple[Value, ...]] | None = None  # replaces the study's grid for this arm

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
                f"arm {self.name}: data or start is given, but it has no recipe or method to train by"
            )
        return self


class Published(_Table):
    """Numbers that a paper prints at one place of its table."""

    arm: str  # the name of an arm. Any other name adds a line to the table, for reference.
    at: dict[
        str, Value
    ] = {}  # the cell of the grid; of an analysis, the columns that identify a row of its table
    analysis: str = ""  # the analysis that the numbers belong to; the study's own table if empty
    scores: dict[str, float]  # score -> value as printed; of an analysis, column -> value
    deviation: dict[str, float] = {}  # score -> standard deviation as printed
    note: str = ""  # a remark for the reader


class Figure(_Table):
    """A figure that is drawn from the study's table."""

    kind: Literal["curve", "bars"]  # a line for each arm; a bar for each line of the table
    y: str  # the score
    x: str = ""  # the horizontal axis of a curve, an option of the grid
    log: bool = False  # whether this axis is logarithmic


class Study(_Table):
    """A comparison, or a table of a paper."""

    title: str  # what the study compares, in a line
    paper: str = ""  # the paper's short name; empty if the study is of no paper
    source: str = ""  # where the published numbers are printed
    model: str = BUNDLED_MODEL  # the published model. Arms that name no other start from it.
    # each arm is run with each of them in each cell
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0,)
    tasks: tuple[
        str, ...
    ] = ()  # what encoders are evaluated on; names as in `isotune.evaluation.load_tasks`
    pairs: tuple[tuple[str, str], ...] = ()  # sentences whose cosines the table shows
    # the table's columns. Each is a key of `Evaluation.scores`, of `averages` or of `RUN_SCORES`; or "start:" before
    # such a key; or a score as `COSINE` and `PREDICTED` describe it.
    scores: Annotated[tuple[str, ...], Field(min_length=1)]
    # whether SentEval's classifiers have the run's seed; an untrained arm is then scored with every seed
    classifier_seeds: bool = False
    aggregation: Literal["all", "mean", "wmean"] = (
        "all"  # how a task's score is made of its subsets
    )
    metric: Literal["spearman", "pearson"] = "spearman"  # which correlation scores are
    judge: str = ""  # the score by which arms are compared; the first of `scores` if empty
    # compare every arm with the first one, or with all others. A single arm's cells are compared instead. Where arms
    # name what they are compared `against`, only these arms are compared.
    compare: Literal["first", "all"] = "first"
    # a score. Of each arm's cells, the table shows only the cell with the highest mean of this score.
    best: str = ""
    # further scores that are means of others, for a paper's own averages
    averages: dict[str, Annotated[tuple[str, ...], Field(min_length=1)]] = {}
    # the table prints correlations and accuracies times this: 100, or 1 if the paper prints 0.760
    scale: Literal[1, 100] = 100
    cost: str = ""  # how long the study takes, and whether that is measured or estimated
    note: str = ""  # a remark for the reader
    options: dict[str, Any] = {}  # applied to every arm that has them
    stand_ins: bool = (
        False  # whether data that stand in for published data are used (`recipes.resolve`)
    )
    # option -> values. An arm is run at each combination of the options that it has.
    grid: dict[str, Annotated[tuple[Value, ...], Field(min_length=1)]] = {}
    arms: tuple[Arm, ...] = ()  # what is compared
    statistics: tuple[
        str, ...
    ] = ()  # datasets whose sizes (`SIZES`), counted, are lines of the table
    published: tuple[Published, ...] = ()  # what the paper prints
    figures: tuple[Figure, ...] = ()  # drawn from the table
    # names in `isotune.lab.analyses.ANALYSES`, made of every arm's encoder of the first seed
    analyses: tuple[str, ...] = ()
    # the scored pairs that the analyses look at; those of the published figures if empty
    analysed: tuple[str, ...] = ()

    @classmethod
    def from_table(cls, table: Mapping[str, Any], name: str = "study") -> Self:
        """Validates a study's table."""
        try:
            return cls.model_validate(table)
        except ValidationError as error:
            raise invalid(name, error) from error

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
        for grid in (self.grid, *(arm.grid or {} for arm in self.arms)):
            for key, values in grid.items():
                axes[key] = list(dict.fromkeys([*axes.get(key, ()), *values]))
        return axes

    def group(self, arm: str) -> str:
        """The name that arms whose lines are ranked together share: the arm they are compared `against`, or ""."""
        against = {each.name: each.against for each in self.arms if each.against}
        return against.get(arm, arm) if against else ""

    @field_validator("arms")
    @classmethod
    def _arms_in_order(cls, arms: tuple[Arm, ...]) -> tuple[Arm, ...]:
        names = [arm.name for arm in arms]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two arms are called {twice[0]}")
        trained: list[str] = []
        for place, arm in enumerate(arms):
            if arm.against and arm.against not in names[:place]:
                raise unknown(f"arm before {arm.name}", arm.against, names[:place] or ["none"])
            if arm.start and arm.start not in trained:
                raise unknown(f"trained arm before {arm.name}", arm.start, trained or ["none"])
            trained += [arm.name] if arm.trained else []
        return arms

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        given = {*self.axes, *self.options, *(key for arm in self.arms for key in arm.options)}
        if twice := sorted(given & STUDY_KEYS):
            raise ValueError(
                f"{twice[0]} isn't given as an option: a study and its arms have a key for it"
            )
        _check("analysis", self.analyses, ANALYSES)
        _check("dataset", self.statistics, DATASETS)
        _check("score to judge by", [self.judged], self.scores)
        _check("score of the best cell", filter(None, [self.best]), [*self.scores, *RUN_SCORES])
        for number, published in enumerate(self.published, 1):
            if published.analysis:
                _check(f"analysis in published {number}", [published.analysis], self.analyses)
                continue
            _check(f"option of the grid in published {number}", published.at, self.axes)
            _check(
                f"score in published {number}",
                [*published.scores, *published.deviation],
                self.scores,
            )
        for number, figure in enumerate(self.figures, 1):
            _check(f"score of figure {number}", [figure.y], self.scores)
            _check(
                f"option of the grid in figure {number}",
                [figure.x] if figure.kind == "curve" else [],
                self.axes,
            )
        return self


def _check(kind: str, names: Iterable[str], allowed: Collection[str]) -> None:
    for name in names:
        if name not in allowed:
            raise unknown(kind, name, allowed or ["none"])

"""Which commands fit the columns of a source, best first.

A door is a way into isotune: texts that belong together, scored pairs, labelled pairs, texts with
labels, documents, sentences. The kinds of the columns decide (`data/columns.py`), and their names
where several columns have one kind. No torch here.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from isotune.data.columns import Column
from isotune.data.rows import (
    VALUE_COLUMNS,
    LabelledSentence,
    Pair,
    ScoredPair,
    Sentence,
    Triplet,
    match_columns,
)
from isotune.encoder.finished import is_finished_encoder
from isotune.errors import counted
from isotune.recipes import DEFAULT_RECIPE, ENCODER_RECIPE, PAIRS_RECIPES, read_recipe

FINISHED = "sentence-transformers/all-MiniLM-L6-v2"
"""What the README advises most people to start from."""

LARGER = "sentence-transformers/all-mpnet-base-v2"
"""A larger encoder, as a teacher."""

UNNAMED = "MODEL"
"""What stands in the place of both for texts of another script."""

UNNAMED_LABEL = "LABEL"
"""What stands in the place of the label of pairs that mean the same, where nothing tells it."""

GENERAL_PAIRS = "stsb-open:dev"
"""The pairs that come with isotune, to choose a step by."""

LEAST_TEXTS = 64
"""A run needs as many different texts: a batch."""

MANY_LABELLED = 2_500
"""With as many labelled texts or more, `MORE_STEPS` of `classify` gain more (docs/results.md)."""

MORE_STEPS = 500
"""The recipe has 100."""

DOCUMENT_WORDS = 40
"""A text with more words in the median is a document of several sentences."""

LATIN = "Latin"
"""The script of the texts that `FINISHED` was trained on."""

BELONG_TOGETHER: Sequence[tuple[Collection[str], Collection[str]]] = (
    (
        ("question", "questions", "query", "queries", "q", "prompt", "instruction"),
        (
            "answer",
            "answers",
            "a",
            "response",
            "reply",
            "passage",
            "context",
            "document",
            "positive",
            "pos",
        ),
    ),
    (
        ("title", "headline", "subject", "heading", "name"),
        ("body", "text", "abstract", "content", "description", "article", "summary", "message"),
    ),
)
"""Names of a first and of a second column, whose texts belong together."""

LABEL_NAMES = (
    *VALUE_COLUMNS["label"],
    "labels",
    "class",
    "category",
    "stars",
    "rating",
    "sentiment",
    "topic",
    "intent",
    "emotion",
    "duplicate",
    "is_duplicate",
)
"""Names of a column of labels, the likeliest first."""

SCORE_NAMES = (*VALUE_COLUMNS["score"], "similarity", "relatedness", "grade")
"""Names of a column of scores of pairs, the likeliest first."""

APART = ("--test-share", "0.2")
"""What sets rows apart in the commands."""

JUDGED = "A fifth of the rows is set apart, and says whether that helped"
"""What `APART` is for."""

LABELS_APART = "a fifth of the rows is set apart, and says how well the labels are predicted"
"""What runs on labels do without being asked."""

SCALE = (-1, 100)
"""The lowest and the highest score of pairs."""

MEASURED = "docs/results.md"
"""The page that has the measured gains of recipes."""


@dataclass(frozen=True)
class Door:
    """A way into isotune."""

    rows: str
    """The type of the rows that the command reads, such as "Pair"."""

    command: str
    """The command, ready to run."""

    why: str
    """What the columns show, and what the command makes of them."""

    measured: str = ""
    """What the recipe gained where that was measured; empty where it was not."""


@dataclass(frozen=True)
class Doorway:
    """What decides which doors a source has."""

    source: str
    """The source, as the user names it."""

    columns: Sequence[Column]
    """What is in its columns."""

    rows: int
    """How many rows were looked at."""

    scripts: Mapping[str, float] = field(default_factory=dict)
    """The share of each script, the largest first."""

    model: str = ""
    """The model to start from; empty if the user has named none."""

    @property
    def texts(self) -> list[Column]:
        """The columns of text; a single column may have single words too, but no numbers."""
        kinds = ["text"]
        if len(self.columns) == 1 and self.columns[0].numbers is None:
            kinds += ["words", "labels"]
        return [column for column in self.columns if column.kind in kinds]

    @property
    def start(self) -> str:
        """The model of the commands."""
        if self.model:
            return self.model
        return FINISHED if self.is_latin else UNNAMED

    @property
    def is_latin(self) -> bool:
        """Whether most letters are those of the texts that `FINISHED` and `LARGER` know."""
        return next(iter(self.scripts), LATIN) == LATIN

    @property
    def is_finished(self) -> bool:
        """Whether the model of the commands is a finished encoder."""
        return not self.model or is_finished_encoder(self.model)

    @property
    def recipe(self) -> str:
        """The recipe for texts alone that the model of the commands gets."""
        return ENCODER_RECIPE if self.is_finished else DEFAULT_RECIPE

    @property
    def pairs_recipe(self) -> str:
        """The recipe for pairs that the model of the commands gets."""
        return PAIRS_RECIPES[self.recipe]

    def command(self, *words: str, out: str) -> str:
        """A command of `isotune train` on the source, whose run folder is named after `out`."""
        start = ["--model", self.start]
        return shlex.join(["isotune", "train", self.source, *words, *start, "--out", f"runs/{out}"])

    def named(self, names: Collection[str], kinds: Collection[str]) -> Column | None:
        """The column of these kinds with the first of the names; None if there is none."""
        by_name = {column.name.lower(): column for column in self.columns if column.kind in kinds}
        for name in names:
            if name in by_name:
                return by_name[name]
        return None


def find_doors(doorway: Doorway) -> list[Door]:
    """The doors that fit a source, best first; none if it has no text."""
    if not doorway.texts:
        return []
    most = max(column.different for column in doorway.texts)
    if most < LEAST_TEXTS:
        return [_without_training(doorway, most)]
    doors: list[Door] = []
    doors += _of_pairs(doorway)
    if not doors:
        doors += _of_labels(doorway)
        doors += _of_label_lists(doorway)
    doors += _of_texts(doorway)
    return doors


def _without_training(doorway: Doorway, texts: int) -> Door:
    """What can be done with too few texts to train on."""
    column = _longest(doorway.texts)
    words = [doorway.source, *_columns_words({"sentence": column.name})]
    index = shlex.join(["isotune", "index", doorway.start, *words, "--out", "runs/index"])
    return Door(
        Sentence.__name__,
        index,
        f"too few to train on: {counted(texts, 'different text')}, and {LEAST_TEXTS} or more are "
        "needed. An encoder searches in them without any training",
    )


def _of_pairs(doorway: Doorway) -> Iterator[Door]:
    """The doors of two texts: with scores, with labels, or texts that belong together."""
    texts = {column.name: column for column in doorway.texts}
    triplet = match_columns(Triplet, texts, {})
    if triplet:
        columns = [texts[name] for name in triplet[0]]
        yield _with_blanks(_of_triplets(doorway, triplet[0]), doorway, columns)
        return
    pair = _two_texts(doorway)
    if pair is None or any(2 * column.filled < doorway.rows for column in pair):
        return
    first, second = pair
    score = _scores(doorway)
    labels = doorway.named(LABEL_NAMES, ("labels",))
    if score:
        for door in _of_scores(doorway, first, second, score):
            yield _with_blanks(door, doorway, (first, second, score))
    elif labels:
        for door in _of_labelled_pairs(doorway, first, second, labels):
            yield _with_blanks(door, doorway, (first, second, labels))
    else:
        yield _with_blanks(_of_texts_together(doorway, first, second), doorway, pair)


def _with_blanks(door: Door, doorway: Doorway, columns: Iterable[Column]) -> Door:
    """The door, which says in which of its columns cells are blank: its command refuses these."""
    blanks = {column.name: doorway.rows - column.filled for column in columns}
    parts = [f"{counted(count, 'row')} in {name}" for name, count in blanks.items() if count]
    if not parts:
        return door
    advice = f"Blank cells are refused: fill or delete {', '.join(parts)} first"
    return replace(door, why=f"{door.why}. {advice}")


def _two_texts(doorway: Doorway) -> tuple[Column, Column] | None:
    """Two columns of text that belong together by their names, or that are the only two."""
    texts = {column.name: column for column in doorway.texts}
    usual = match_columns(Pair, texts, {})
    if usual:
        first, second = usual[0]
        return texts[first], texts[second]
    for names_of_first, names_of_second in BELONG_TOGETHER:
        one = doorway.named(names_of_first, ("text", "labels"))
        other = doorway.named(names_of_second, ("text",))
        if one and other:
            return one, other
    if len(texts) == 2:
        one, other = texts.values()
        return one, other
    return None


def _scores(doorway: Doorway) -> Column | None:
    """The column of scores of pairs: one with a usual name, or the only one beside the texts."""
    named = doorway.named(SCORE_NAMES, ("numbers", "labels"))
    if named and named.numbers and named.different > 2:
        return named
    if len(doorway.columns) > 3:
        return None
    for column in doorway.columns:
        if _looks_like_scores(column):
            return column
    return None


def _looks_like_scores(column: Column) -> bool:
    """Whether numbers are on a scale, and neither ids, which are all different, nor years."""
    if column.numbers is None or not 2 < column.different < column.filled:
        return False
    low, high = column.numbers
    least, most = SCALE
    return least <= low and high <= most


def _of_triplets(doorway: Doorway, names: Sequence[str]) -> Door:
    anchor, positive, negative = names
    command = doorway.command(
        *_columns_words({"anchor": anchor, "positive": positive, "negative": negative}),
        *("--recipe", doorway.pairs_recipe, "--negatives", *APART),
        out="triplets",
    )
    why = (
        f"three columns of text, {anchor}, {positive} and {negative}: a text, one that belongs to "
        f"it, and one that does not. {JUDGED}"
    )
    return Door(Triplet.__name__, command, why)


def _of_texts_together(doorway: Doorway, first: Column, second: Column) -> Door:
    command = doorway.command("--pairs", first.name, second.name, *APART, out="pairs")
    what = "texts that belong together, if each row is about one thing"
    if first.questions > 0.5:
        what = "questions and what answers them"
    elif first.words and second.words and 2 * first.words.median < second.words.median:
        what = "short texts, such as titles, and long ones"
    why = (
        f"two columns of text, {first.name} and {second.name}: {what}. Each first text has to find "
        f"its second among those of other rows, so search finds more. {JUDGED}"
    )
    return Door(Pair.__name__, command, why, _measured(doorway.pairs_recipe))


def _of_scores(doorway: Doorway, first: Column, second: Column, score: Column) -> Iterator[Door]:
    texts = f"two columns of text, {first.name} and {second.name}, and the scores {score.name}"
    names = (first.name, second.name, score.name)
    # The name of a task separates columns by commas.
    if not any("," in name for name in names):
        task = ",".join([doorway.source, *names])
        yield Door(
            ScoredPair.__name__,
            shlex.join(["isotune", "evaluate", doorway.start, "--tasks", task]),
            f"{texts}: they judge any encoder. A run on sentences of the same kind chooses its "
            "step by them with --dev in place of --tasks",
        )
    columns = {"sentence1": first.name, "sentence2": second.name, "score": score.name}
    train = doorway.command(
        *("--recipe", "cosent", "--dev", "none", *APART), *_columns_words(columns), out="scores"
    )
    yield Door(
        ScoredPair.__name__,
        train,
        f"{texts}: cosines learn the order of the scores. {JUDGED}",
    )


def _of_labelled_pairs(
    doorway: Doorway, first: Column, second: Column, labels: Column
) -> Iterator[Door]:
    names = [label for label, _ in labels.classes]
    texts = f"two columns of text, {first.name} and {second.name}, and the labels {labels.name}"
    columns = {"sentence1": first.name, "sentence2": second.name, "label": labels.name}
    words = _columns_words(columns)
    if {"entailment", "contradiction"} <= {label.casefold() for label in names}:
        yield Door(
            Triplet.__name__,
            doorway.command(
                *("--recipe", "simcse-sup", "--dev", GENERAL_PAIRS), *words, out="inference"
            ),
            f"{texts}: natural language inference. What a text entails is drawn near, and what "
            "contradicts the text is pushed away",
        )
        return
    positive = _positive(names)
    if positive == UNNAMED_LABEL:
        what = f"put the label of pairs that mean the same in the place of {positive}: they"
    else:
        what = f"the pairs with the label {positive}"
    yield Door(
        Pair.__name__,
        doorway.command(
            *("--recipe", doorway.pairs_recipe),
            *(*words, "--positive", positive, *APART),
            out="pairs",
        ),
        f"{texts}: {what} are trained on as texts that belong together. {JUDGED}",
        _measured(doorway.pairs_recipe),
    )


def _positive(names: Sequence[str]) -> str:
    """The label of pairs that mean the same: 1 beside 0, entailment, or what the user fills in."""
    if set(names) == {"0", "1"}:
        return "1"
    for name in names:
        if name.casefold() == "entailment":
            return name
    return UNNAMED_LABEL


def _of_labels(doorway: Doorway) -> Iterator[Door]:
    """The doors of one text and labels: tuning first, and a classifier alone second."""
    labels = doorway.named(LABEL_NAMES, ("labels",))
    rivals = [column for column in doorway.columns if column.kind == "labels"]
    if labels is None and rivals:
        labels = rivals[0]
    if labels is None or labels.different < 2:
        return
    text = _longest(doorway.texts)
    words = _columns_words({"sentence": text.name, "label": labels.name})
    what = f"text in the column {text.name}, and {labels.different} labels in {labels.name}"
    others = [column.name for column in rivals if column is not labels]
    if others:
        what += f" (other columns with few values: {', '.join(others)})"
    # So many rows have both at least; more have, where the same rows lack both.
    labelled = text.filled + labels.filled - doorway.rows
    steps: list[str] = []
    advice = ""
    if labelled >= MANY_LABELLED:
        steps = ["--steps", str(MORE_STEPS)]
        advice = (
            f"; from {MANY_LABELLED:,} texts on, {MORE_STEPS} steps gain more than the usual ones"
        )
    yield Door(
        LabelledSentence.__name__,
        doorway.command("--recipe", "classify", *words, *steps, out="labels"),
        f"{what}: the encoder is tuned on the labels first, and stays as it was where that gains "
        f"no more than chance; {LABELS_APART}{advice}",
        _measured("classify"),
    )
    yield Door(
        LabelledSentence.__name__,
        doorway.command("--method", "classifier", *words, out="classifier"),
        f"{what}: a classifier on the encoder as it is, in one pass over the text, where there is "
        f"no time to tune it; {LABELS_APART}",
    )


def _of_label_lists(doorway: Doorway) -> Iterator[Door]:
    """The door of one text and several labels."""
    lists = [column for column in doorway.columns if column.kind == "label lists"]
    if not lists or lists[0].different < 2:
        return
    labels = lists[0]
    text = _longest(doorway.texts)
    words = _columns_words({"sentence": text.name, "label": labels.name})
    yield Door(
        LabelledSentence.__name__,
        doorway.command("--method", "classifier", "--kind", "multi", *words, out="labels"),
        f"text in the column {text.name}, and lists of {labels.different} labels in "
        f"{labels.name}: a classifier on the encoder as it is predicts any number of labels a "
        f"text; {LABELS_APART}",
    )


def _of_texts(doorway: Doorway) -> Iterator[Door]:
    """The doors of the texts alone: those of all usual columns, or else of the longest column."""
    text = _longest(doorway.texts)
    words = _columns_words({"sentence": text.name})
    what = f"the texts in the column {text.name} alone"
    usual = match_columns(Sentence, [column.name for column in doorway.texts], {})
    if len(usual) > 1:
        words = []
        what = f"the texts in the columns {', '.join(name for (name,) in usual)}, each by itself"
    if text.words and text.words.median > DOCUMENT_WORDS:
        yield Door(
            Sentence.__name__,
            doorway.command("--recipe", "crops", *words, out="crops"),
            f"{what}, which are long: two passages of a text learn to find each other, for search "
            "without questions",
            _measured("crops"),
        )
    recipe = doorway.recipe
    made = "a language model becomes an encoder of such texts"
    if doorway.is_finished:
        made = "a finished encoder is adapted to such texts, as far as it forgets nothing"
    yield Door(
        Sentence.__name__, doorway.command(*words, out=recipe), f"{what}: {made}", _measured(recipe)
    )
    yield _of_a_teacher(doorway, words)


def _of_a_teacher(doorway: Doorway, words: Sequence[str]) -> Door:
    """The door of an encoder that is smaller than another."""
    teacher = LARGER if doorway.is_latin else UNNAMED
    student: list[str] = []
    if doorway.model and doorway.is_finished:
        teacher = doorway.model
    elif doorway.model:
        student = ["--model", doorway.model]
    small = [doorway.source, *words, "--teachers", teacher, *student, "--out", "runs/student"]
    return Door(
        Sentence.__name__,
        shlex.join(["isotune", "train", *small]),
        "the same texts, if the encoder is to be smaller or faster: the bundled small model, or "
        "the one that --model names, learns the similarities of a larger encoder",
    )


def _longest(texts: Sequence[Column]) -> Column:
    """The column with the longest texts in the median; the first of equal ones."""
    return max(texts, key=lambda column: column.words.median if column.words else 0)


def _columns_words(columns: Mapping[str, str]) -> list[str]:
    """The words that name columns; none where each column has the name of its field."""
    words = [f"{field}={column}" for field, column in columns.items() if field != column]
    if not words:
        return []
    return ["--columns", *words]


def _measured(recipe: str) -> str:
    """What a recipe gained where that was measured, and the page that says so."""
    gained = str(read_recipe(recipe).get("gained", ""))
    if not gained:
        return ""
    return f"{gained} ({MEASURED})"

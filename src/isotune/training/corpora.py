"""From a stage's sources to tokens: what is trained on, what is scored, and what the log says about the data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random

from isotune.data import ScoredPairs, read
from isotune.data.cache import cache_folder
from isotune.data.overlap import Overlap, Shared
from isotune.data.rows import Row, Sentence, text_fields
from isotune.data.sources import Source
from isotune.data.tokens import Fingerprint, Tokenize, TokenStore
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.files import write_text
from isotune.methods.method import Method
from isotune.methods.protocols import SINGLE_FEED, DerivesRows, Feed, ScoresRows, SeveralFeeds
from isotune.recipes import Recipe, Stage, TrainingOptions
from isotune.training.recorder import Recorder
from isotune.training.seeds import derive_seed

MANY_REPEATS = 0.1  # share of repeated texts above which the log warns
MANY_CUT = 0.1  # share of texts cut to the maximum length above which the log warns
MUCH_OVERLAP = 0.1  # share of a task's pairs in the training text above which the log warns


@dataclass(frozen=True)
class StageData:
    """The tokens of a stage.

    Attributes:
        train: the training data by the name of the feed; `SINGLE_FEED` where the method has only one.
        dev: the labelled rows that the method is scored on, by name.
    """

    train: Mapping[str, TokenStore]
    dev: Mapping[str, TokenStore]


class Corpora:
    """Reads and tokenizes the data of a run."""

    def __init__(
        self,
        recipe: Recipe,
        rows: Iterable[str | Row] | None,
        evaluation: Sequence[ScoredPairs],
        folder: Path,
        recorder: Recorder,
    ) -> None:
        """Takes the recipe and the run folder.

        Args:
            recipe: names the sources.
            rows: rows from Python in place of the recipe's sources; None where there are none.
            evaluation: the pairs that the run is evaluated on. The log says how many of them are in the training text.
            folder: the run folder, which gets data.json and holds the tokens.
            recorder: writes the log.
        """
        self.recipe = recipe
        self.rows = rows
        self.evaluation = {f"{pairs.name}:{pairs.split}".rstrip(":"): pairs for pairs in evaluation}
        self.folder = folder
        self.recorder = recorder

    def check(self, first: int) -> None:
        """Checks that the sources of the recipe, from stage number `first` on, exist. No model is needed.

        Raises:
            InputError: a source doesn't exist, or standard input would be read more than once.
        """
        recipe = self.recipe
        named = [recipe.inputs(stage).data for stage in recipe.stages[first:]]
        if recipe.scratch and not first:
            named.append(recipe.stages[0].data or recipe.data)  # for the vocabulary
        for data in named:
            read(self._sources(data), Sentence)
        if (times := sum("-" in data for data in named)) > 1:
            raise InputError(f"-: standard input can be read only once, this run needs it {times} times; name a file")

    def try_stage(self, stage: Stage, method: Method, encoder: Encoder) -> None:
        """Reads the first row of every source of a stage but standard input, and tokenizes one short row.

        Raises:
            InputError: a source doesn't exist or has no rows of the method's type, or a prompt leaves no room.
        """
        dev_feeds = method.dev_feeds() if isinstance(method, ScoresRows) else {}
        for feed in [*self._feeds(stage, method).values(), *dev_feeds.values()]:
            for source in self._sources(feed.data):
                if source != "-":
                    next(self._read([source], feed, stage.training))
        method.tokenize(encoder, [["a"]] * len(text_fields(method.rows)), _max_length(stage, encoder))

    def texts(self) -> Iterator[str]:
        """The sentences of the first stage, to make a vocabulary from.

        Raises:
            InputError: a source can't be used.
        """
        recipe = self.recipe
        rows = read(self._sources(recipe.stages[0].data or recipe.data), Sentence, recipe.columns)
        return (row.sentence for row in rows)

    def load(self, number: int, stage: Stage, method: Method, encoder: Encoder) -> StageData:
        """Reads and tokenizes the data of stage `number`, counted from 0.

        data.json gets the fingerprint of the training data. A resumed run needs the same data.

        Raises:
            InputError: a source can't be used, or the data has changed since the run was started.
        """
        length = _max_length(stage, encoder)
        tokenize = partial(method.tokenize, encoder, max_length=length)
        train = {}
        for name, feed in self._feeds(stage, method).items():
            overlap = Overlap(self.evaluation)
            train[name] = store = self._tokenized(feed, overlap, stage, method, tokenize, length)
            shared = {task: counts for task, counts in overlap.shared().items() if counts.sentences}
            title = f"stage {number + 1}, {name}" if name else f"stage {number + 1}"
            self._record(title, feed.data, store.fingerprint, shared)
            self._describe(name, store.fingerprint, shared, length)
        dev = {}
        for name, feed in (method.dev_feeds() if isinstance(method, ScoresRows) else {}).items():
            rows = self._read(feed.data, feed, stage.training)
            dev[name] = TokenStore.build(rows, feed.rows, tokenize, length, self.folder, classes=feed.classes)
        return StageData(train, dev)

    def _tokenized(
        self, feed: Feed, overlap: Overlap, stage: Stage, method: Method, tokenize: Tokenize, length: int
    ) -> TokenStore:
        """The tokens of a feed. `overlap` sees every row as it is read."""
        rows: Iterable[Row] = self._read(self._sources(feed.data), feed, stage.training)
        if stage.training.sample:
            rows = _sample(rows, stage.training.sample, derive_seed(self.recipe.seed, "sample"))
        rows, row_type = overlap.watch(rows, feed.rows), feed.rows
        if isinstance(method, DerivesRows):
            rows, row_type = method.prepare(rows, self._cache(feed.data), self.recorder.say), method.rows
        return TokenStore.build(
            rows, row_type, tokenize, length, self.folder, classes=feed.classes, keep_text=method.needs_text
        )

    def _feeds(self, stage: Stage, method: Method) -> Mapping[str, Feed]:
        """What a stage trains on, by the name of the feed."""
        if isinstance(method, SeveralFeeds):
            return method.feeds()
        row_type = method.reads if isinstance(method, DerivesRows) else method.rows
        return {SINGLE_FEED: Feed(row_type, stage.data or self.recipe.data, classes=method.classes)}

    def _read(self, sources: Sequence[Source], feed: Feed, training: TrainingOptions) -> Iterator[Row]:
        """The rows of a feed. Options that leave training rows out don't count for rows to score on."""
        columns = self.recipe.columns
        if feed.metrics:
            return read(sources, feed.rows, columns)
        return read(sources, feed.rows, columns, min_words=training.min_words, min_score=training.min_score)

    def _sources(self, data: tuple[str, ...]) -> Sequence[Source]:
        """The sources that `data` names. Rows from Python replace the recipe's sources, but not those of a stage."""
        return data if self.rows is None or data != self.recipe.data else [self.rows]

    def _cache(self, data: tuple[str, ...]) -> Path | None:
        """The folder that keeps derived texts; None for rows from Python."""
        source = self._sources(data)[0]
        return cache_folder(source) if isinstance(source, str) else None

    def _record(
        self, title: str, sources: Sequence[str], fingerprint: Fingerprint, shared: Mapping[str, Shared]
    ) -> None:
        """Writes a feed's fingerprint to data.json, or compares it with the fingerprint of the run's start."""
        if fingerprint.distinct < 2:
            count = fingerprint.sentences
            content = "one sentence only" if count == 1 else f"{count} sentences, all of them the same"
            raise InputError(f"{', '.join(sources)}: {content}; contrastive learning needs different sentences")
        path = self.folder / "data.json"
        known: Mapping[str, Mapping[str, object]] = json.loads(path.read_text("utf-8")) if path.exists() else {}
        entry = {"sources": list(sources), **asdict(fingerprint)}
        if not entry.items() <= known.get(title, entry).items():
            raise InputError(
                f"{self.folder}: the data has changed since the run was started, so the run can't continue; give the "
                "same data, or start again in another folder"
            )
        if shared:
            entry["overlap"] = {task: counts._asdict() for task, counts in shared.items()}
        write_text(path, json.dumps({**known, title: entry}, indent=2) + "\n")

    def _describe(self, name: str, data: Fingerprint, shared: Mapping[str, Shared], length: int) -> None:
        """Says in the log what a feed holds, and warns of what may spoil the training or its scores."""
        title = f"data of {name}" if name else "data"
        self.recorder.say(f"{title}: {data.rows:,} rows, {data.distinct:,} different texts, {data.tokens:,} tokens")
        repeats = 1 - data.distinct / data.sentences
        if repeats > MANY_REPEATS:
            self.recorder.warn(0, f"{repeats:.0%} of the texts are repeats; training pushes a text and its copy apart")
        if data.cut > MANY_CUT * data.sentences:
            self.recorder.warn(0, f"{data.cut / data.sentences:.0%} of the texts are cut at {length} tokens")
        for task, counts in shared.items():
            self.recorder.say(
                f"overlap: {counts.sentences:,} of the {counts.of_sentences:,} sentences of {task} are in the training "
                f"text; for {counts.pairs:,} of its {counts.of_pairs:,} pairs both sentences are"
            )
        if heavy := [task for task, counts in shared.items() if counts.pairs > MUCH_OVERLAP * counts.of_pairs]:
            self.recorder.warn(
                0,
                f"sentences of {', '.join(heavy)} are in the training text: the encoder has seen the text that these "
                "scores are measured on (data.json has the counts)",
            )


def _sample(rows: Iterable[Row], size: int, seed: int) -> list[Row]:
    """Draws `size` rows with equal probability and keeps their order. Only the drawn rows are held in memory.

    Raises:
        InputError: there are fewer rows.
    """
    random = Random(seed)
    drawn: list[tuple[int, Row]] = []
    for place, row in enumerate(rows):
        if place < size:
            drawn.append((place, row))
        elif (slot := random.randrange(place + 1)) < size:
            drawn[slot] = place, row
    if len(drawn) < size:
        raise InputError(f"sample {size} is more than the data has ({len(drawn)} rows); give {len(drawn)} or less")
    return [row for _, row in sorted(drawn)]


def _max_length(stage: Stage, encoder: Encoder) -> int:
    """The number of tokens that a stage cuts sentences to."""
    return min(stage.training.max_length, encoder.max_length)

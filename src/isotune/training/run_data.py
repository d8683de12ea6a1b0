"""From a stage's sources to tokens, with what the log says about the data."""

import glob
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import numpy as np

from isotune.data import DATASETS, ScoredPairs, read
from isotune.data.cache import cache_folder
from isotune.data.draws import derive_seed
from isotune.data.equal_texts import EqualTexts
from isotune.data.held_out import is_held_out, without_held_out
from isotune.data.number_texts import NumberTexts
from isotune.data.overlap import Overlap, Shared
from isotune.data.rows import Pair, Row, Sentence, text_fields
from isotune.data.sources import FromPython, Rows, Source
from isotune.data.tokens import Fingerprint, TokenDataset
from isotune.data.trained_rows import TRAINED_ROWS, TrainedRows
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError, counted
from isotune.evaluation.copies import groups_of_copies
from isotune.files import read_json, write_text
from isotune.methods.method import ROWS, Feed, Method, ScoredFeed, Split
from isotune.methods.options import LabelOptions
from isotune.recipes import Recipe, Stage, TrainingOptions
from isotune.recipes.look import glance
from isotune.training.apart import SetApart, sets_apart
from isotune.training.labels import LabelledData, sources_or_rows
from isotune.training.recorder import RunContext
from isotune.training.run_folder import DATA

DividedRows: TypeAlias = LabelledData | SetApart
"""Rows of which some are set apart, to say what the result is worth."""

SPLITS: Sequence[Split] = ("dev", "test")

STDIN = "-"
"""The source that is standard input."""

MOST_DRAWN = 1_000_000
"""Rows of a sample that nobody asked for. A sample is held in memory."""

MANY_REPEATS = 0.1
"""The share of repeated texts above which the log warns."""

MANY_EQUAL = 0.1
"""The share of rows with two equal texts above which the log warns."""

MANY_NUMBERS = 0.5
"""The share of texts that are numbers from which on the log warns."""

MANY_CUT = 0.1
"""The share of texts cut to the maximum length above which the log warns."""

MUCH_OVERLAP = 0.1
"""The share of a task's pairs in the training text above which the log warns."""


@dataclass(frozen=True)
class StageData:
    """The tokens of a stage."""

    train: Mapping[str, TokenDataset]
    """The training data by the name of the feed."""

    dev: Mapping[str, TokenDataset]
    """The labelled rows that choose the best step, by name."""

    test: Mapping[str, TokenDataset]
    """The labelled rows that score the best step, by name."""

    cache: Path | None
    """The folder for what is costly to compute from the text; None for rows from Python."""


@dataclass(frozen=True)
class RunData:
    """Reads and tokenizes the data of a run."""

    recipe: Recipe
    """It names the sources."""

    rows: Iterable[FromPython] | None
    """Rows from Python that replace the recipe's sources."""

    divided: DividedRows | None
    """The rows of the stages that set rows apart; None if none does."""

    evaluation: Sequence[ScoredPairs]
    """What the run is scored on; the log says how much of it is in the training text."""

    run: RunContext
    """Its folder gets data.json and holds the tokens."""

    def check(self, first: int) -> None:
        """Checks that the sources of the stages from number `first` on exist.

        No model is needed.
        """
        times = 0
        for stage in self.recipe.stages[first:]:
            data = self.recipe.inputs(stage).data
            read(sources_or_rows(data, self.rows), Sentence)
            times += STDIN in data
        if self.recipe.shares and STDIN in self.recipe.data:
            raise InputError(
                f"{STDIN}: standard input is read only once, and for shares the rows are counted "
                "first; name a file"
            )
        if times > 1:
            raise InputError(
                f"{STDIN}: standard input can be read only once, this run needs it {times} times; "
                "name a file"
            )

    def try_stage(self, stage: Stage, method: Method, encoder: Encoder) -> None:
        """Tokenizes a short row, and reads the first row of each source but standard input."""
        length = length_of(stage, method, encoder)
        for feed in self._feeds(stage, method).values():
            names = feed.data or ("rows",)
            for name, source in zip(names, sources_or_rows(feed.data, self.rows), strict=True):
                if name != STDIN and not self._is_divided(stage):
                    next(self._read([source], feed, stage))
            short_row = [["a"]] * len(text_fields(feed.rows))
            method.tokenize(encoder, short_row, length)
        for split in SPLITS:
            for scored in method.scored(split).values():
                for source in scored.data:
                    next(read([source], scored.rows, self.recipe.columns, labels=scored.classes))

    def sentences(self, method: Method) -> Iterator[str]:
        """The sentences of the first stage, whose method is given.

        There are none if the stage reads other rows, or standard input.
        """
        feed, *others = self._feeds(self.recipe.stages[0], method).values()
        row_type = feed.row_type
        if others or row_type is not Sentence or STDIN in feed.data:
            return
        for row in read(sources_or_rows(feed.data, self.rows), Sentence, self.recipe.columns):
            yield row.sentence

    def at_a_glance(self, method: Method) -> Iterator[str]:
        """What the first rows of the files show that the first stage reads, whose method is given.

        Nothing is said of named datasets, the hub, streams and rows from Python. What can't be read
        is told when the stage reads the whole file.
        """
        feed, *_ = self._feeds(self.recipe.stages[0], method).values()
        reads_texts = feed.row_type is Sentence
        for source in filter(is_file, feed.data):
            with suppress(InputError):
                yield from glance(source).in_short(suggests=reads_texts)

    def held_out(self, method: Method) -> Iterator[str]:
        """The sentences that a run with teachers doesn't train on; `method` is the first stage's.

        There are none in another run, or if `sentences` gives none.
        """
        if self.recipe.teachers:
            yield from filter(is_held_out, self.sentences(method))

    def load(self, number: int, stage: Stage, method: Method, encoder: Encoder) -> StageData:
        """Reads and tokenizes the data of stage `number`, counted from 0."""
        length = length_of(stage, method, encoder)
        build = partial(
            TokenDataset.build,
            tokenize=partial(method.tokenize, encoder, max_length=length),
            max_length=length,
            folder=self.run.folder,
        )
        train = {}
        trained_rows = TrainedRows()
        feeds = self._feeds(stage, method)
        for name, feed in feeds.items():
            overlap = Overlap({pairs.source: pairs for pairs in self.evaluation})
            source_rows = self._read(sources_or_rows(feed.data, self.rows), feed, stage)
            sampled = self._chosen(source_rows, feed, stage)
            watched = overlap.watch(sampled, feed.row_type)
            watched = trained_rows.watch(watched, feed.row_type)
            equal = EqualTexts()
            watched = equal.watch(watched, feed.row_type)
            numbers = NumberTexts()
            watched = numbers.watch(watched, feed.row_type)
            rows = method.prepare(watched, self._cache(feed), self.run.recorder.say)
            with self._turn(feed):
                store = build(rows, feed.rows, classes=feed.classes, keep_text=method.needs_text)
            train[name] = store
            _check_content(feed, store, upsampled=stage.training.as_released.upsample)
            self._check_equal(feed, equal)
            self._describe_numbers(feed, numbers)
            shared = _found(overlap)
            stage_title = f"stage {number + 1}"
            data_title = "data"
            if name != ROWS:
                stage_title = f"stage {number + 1}, {name}"
                data_title = f"data of {name}"
            self._record(stage_title, feed.data, store.fingerprint, shared, source_rows.commits)
            self._describe(data_title, store.fingerprint, length, method)
            self._describe_overlap(shared)
        self.run.workers.on_rank_zero(trained_rows.save, self.run.folder / TRAINED_ROWS)
        dev = self._load_scored(method.scored("dev"), build)
        test = self._load_scored(method.scored("test"), build)
        first = next(iter(feeds.values()))
        return StageData(train, dev, test, self._cache(first))

    def count(self, stage: Stage, method: Method) -> dict[str, int]:
        """How many rows a stage trains on, by the name of the feed. They are read, not tokenized.

        Rows that `Method.prepare` makes of others are taken to be as many as these.
        """
        counts = {}
        for name, feed in self._feeds(stage, method).items():
            rows = self._read(sources_or_rows(feed.data, self.rows), feed, stage)
            counts[name] = _count(self._chosen(rows, feed, stage))
        return counts

    def _load_scored(
        self, feeds: Mapping[str, ScoredFeed], build: Callable[..., TokenDataset]
    ) -> dict[str, TokenDataset]:
        """Reads and tokenizes all labelled rows: options that leave out rows are for training."""
        stores = {}
        for name, feed in feeds.items():
            rows = self._rows_to_score_on(feed)
            if feed.part[0] > 0:
                rows = list(rows)
                self._tell_copies(feed, rows)
            stores[name] = build(rows, feed.rows, classes=feed.classes)
        return stores

    def _rows_to_score_on(self, feed: ScoredFeed) -> Iterable[Row]:
        """The rows of the sources, or those that `test_share` has left to choose the step."""
        if feed.data:
            return read(feed.data, feed.rows, self.recipe.columns, labels=feed.classes)
        assert isinstance(self.divided, SetApart)
        return self.divided.dev

    def _tell_copies(self, feed: ScoredFeed, rows: Sequence[Row]) -> None:
        """Warns of rows to score on whose copies stand in an earlier part of the same data."""
        width = len(text_fields(feed.rows))
        texts = [[str(text) for text in row[:width]] for row in rows]
        groups = groups_of_copies(*zip(*texts, strict=True))
        if groups is None:
            return
        first, end = (round(share * len(rows)) for share in feed.part)
        copies = int(np.isin(groups[first:end], groups[:first]).sum())
        if copies:
            self.run.recorder.warn(
                0,
                f"{copies:,} of the {counted(end - first, 'row')} that score the kept step are "
                "copies of rows that chose it (letters and digits are compared); their score is "
                "too high",
            )

    def _turn(self, feed: Feed) -> AbstractContextManager[None]:
        """Lets the first process make texts that are costly. The others find them in the cache."""
        if feed.reads:
            return self.run.workers.rank_zero_first()
        return nullcontext()

    def _cache(self, feed: Feed) -> Path | None:
        """The folder for texts that are made from a source; None for rows from Python."""
        source = sources_or_rows(feed.data, self.rows)[0]
        if isinstance(source, str):
            return cache_folder(source)
        return None

    def _chosen(self, rows: Iterable[Row], feed: Feed, stage: Stage) -> Iterable[Row]:
        """The rows that a stage trains on, of those of a feed's sources."""
        if self.recipe.shares and feed.data == self.recipe.data:
            chosen: Iterable[Row] = self._in_shares(feed, stage)
        else:
            chosen = self._to_train_on(rows, feed.data, feed)
        return self._sampled(chosen, feed, stage.training)

    def _to_train_on(
        self, rows: Iterable[Row], sources: Sequence[str], feed: Feed
    ) -> Iterable[Row]:
        """The rows of sources that may be trained on: a run with teachers holds out some."""
        if not self.recipe.teachers:
            return rows
        names = ", ".join(sources) or "rows"
        return without_held_out(rows, feed.row_type, names)

    def _in_shares(self, feed: Feed, stage: Stage) -> list[Row]:
        """As many rows of the sources as there can be in the shares of the recipe.

        Each source is read twice: its rows are counted, and then drawn.
        """
        counts = [_count(self._rows_of(source, feed, stage)) for source in feed.data]
        sizes = _sizes_in_shares(counts, self.recipe.shares)
        seed = derive_seed(self.recipe.seed, "shares")
        rows = []
        for source, count, size in zip(feed.data, counts, sizes, strict=True):
            counted_rows = counted(count, "row")
            if size == 0:
                shares = ", ".join(f"{share:g}" for share in self.recipe.shares)
                raise InputError(
                    f"{source}: {counted_rows}, of which none is taken in the shares {shares}"
                )
            drawn, _ = _draw(self._rows_of(source, feed, stage), size, seed)
            self.run.recorder.say(f"shares: {size:,} of the {counted_rows} of {source}")
            rows += drawn
        return rows

    def _rows_of(self, source: str, feed: Feed, stage: Stage) -> Iterable[Row]:
        """The rows of one of a feed's sources that may be trained on."""
        return self._to_train_on(self._read([source], feed, stage), [source], feed)

    def _sampled(self, rows: Iterable[Row], feed: Feed, training: TrainingOptions) -> Iterable[Row]:
        """The rows, or a sample of as many as the stage takes, since no step takes a row again."""
        seed = derive_seed(self.recipe.seed, "sample")
        if training.sample:
            return _sample(rows, training.sample, seed, training.as_released.upsample)
        steps = training.steps or 0
        needed = feed.enough or steps * (feed.batch_size or training.batch_size)
        if not 0 < needed <= MOST_DRAWN:
            return rows
        drawn, count = _draw(rows, needed, seed)
        if count > needed:
            self.run.recorder.say(
                f"the stage takes {needed:,} of the {count:,} rows, drawn with the seed; "
                "it has no use for more"
            )
        return drawn

    def _feeds(self, stage: Stage, method: Method) -> Mapping[str, Feed]:
        data = self.recipe.inputs(stage).data
        feeds = method.feeds().items()
        return {name: replace(feed, data=feed.data or data) for name, feed in feeds}

    def _is_divided(self, stage: Stage) -> bool:
        """Whether a stage trains on the rows that are not set apart."""
        sets_rows_apart = isinstance(stage.options, LabelOptions) or sets_apart(stage)
        return self.divided is not None and sets_rows_apart

    def _read(self, sources: Sequence[Source], feed: Feed, stage: Stage) -> Rows[Row]:
        if self.divided and self._is_divided(stage):
            rows: Rows[Row] = read([self.divided.train], self.divided.row_type)
            rows.commits |= self.divided.commits
            return rows
        training = stage.training
        return read(
            sources,
            feed.row_type,
            self.recipe.columns,
            min_words=training.min_words,
            min_score=training.min_score,
            positive=training.positive,
            labels=() if feed.reads else feed.classes,
        )

    def _record(
        self,
        title: str,
        sources: Sequence[str],
        fingerprint: Fingerprint,
        shared: Mapping[str, Shared],
        commits: Mapping[str, str],
    ) -> None:
        """Writes an entry of data.json; refuses data that are not those of the entry before."""
        entry: dict[str, Any] = {"sources": list(sources), **asdict(fingerprint)}
        entries = read_entries(self.run.folder)
        before = entries.get(title, entry)
        missing = sorted(entry.keys() - before.keys())
        if missing:
            raise _damaged(self.run.folder, f"{title} has no {missing[0]}")
        for key, value in entry.items():
            if before[key] != value:
                raise InputError(
                    f"{self.run.folder}: the data has changed since the run was started "
                    f"({key}: {before[key]}, now {value}), so the run can't continue; give the "
                    "same data, or start again in another folder"
                )
        if self.divided:
            entry["set_apart"] = len(self.divided.test)
        if commits:
            entry["commits"] = dict(commits)
        if shared:
            entry["overlap"] = {task: counts._asdict() for task, counts in shared.items()}
        content = json.dumps({**entries, title: entry}, indent=2) + "\n"
        self.run.workers.on_rank_zero(write_text, self.run.folder / DATA, content)

    def _describe(self, title: str, data: Fingerprint, length: int, method: Method) -> None:
        recorder = self.run.recorder
        rows = counted(data.rows, "row")
        texts = counted(data.distinct, "different text")
        recorder.say(f"{title}: {rows}, {texts}, {counted(data.tokens, 'token')}")
        repeats = 1 - data.distinct / data.sentences
        if repeats > MANY_REPEATS and method.separates_copies:
            recorder.warn(
                0,
                f"{repeats:.0%} of the texts are repeats; "
                "training pushes a text and its copy apart",
            )
        if data.cut > MANY_CUT * data.sentences:
            share = data.cut / data.sentences
            recorder.warn(0, f"{share:.0%} of the texts are cut at {length} tokens")

    def _check_equal(self, feed: Feed, found: EqualTexts) -> None:
        """Refuses pairs that are all of a text with itself, and warns of many.

        Triplets have their negatives to learn from.
        """
        if not found.equal:
            return
        if found.equal == found.rows and feed.row_type is Pair:
            raise InputError(
                f"{feed.source_names}: in each of {counted(found.rows, 'row')} the two texts that "
                f"belong together are equal, such as {found.example!r:.60}; name other columns, or "
                "train on sentences alone"
            )
        share = found.equal / found.rows
        if share > MANY_EQUAL:
            self.run.recorder.warn(
                0,
                f"{feed.source_names}: in {share:.0%} of the rows the two texts that belong "
                f"together are equal, such as {found.example!r:.60}; a text finds itself without "
                "training, so leave these rows out",
            )

    def _describe_numbers(self, feed: Feed, found: NumberTexts) -> None:
        """Warns of texts that are numbers, if they are many."""
        if not found.numbers or found.numbers < MANY_NUMBERS * found.texts:
            return
        share = found.numbers / found.texts
        named = " ".join(f"{field}=COLUMN" for field in text_fields(feed.row_type))
        self.run.recorder.warn(
            0,
            f"{feed.source_names}: {share:.0%} of the texts are numbers, such as "
            f"{found.example!r:.60}; if another column holds the text, name it by --columns "
            f"{named} (in Python by columns)",
        )

    def _describe_overlap(self, shared: Mapping[str, Shared]) -> None:
        recorder = self.run.recorder
        heavy = []
        for task, counts in shared.items():
            text = (
                f"overlap: {counts.sentences:,} of the {counts.of_sentences:,} texts of {task} "
                "are in the training text"
            )
            much = counts.sentences > MUCH_OVERLAP * counts.of_sentences
            if counts.of_pairs:
                text += f"; for {counts.pairs:,} of its {counts.of_pairs:,} pairs both are"
                much = counts.pairs > MUCH_OVERLAP * counts.of_pairs
            recorder.say(text)
            if much:
                heavy.append(task)
        if heavy:
            recorder.warn(
                0,
                f"sentences of {', '.join(heavy)} are in the training text: the encoder has seen "
                "the text that these scores are measured on (data.json has the counts)",
            )


def length_of(stage: Stage, method: Method, encoder: Encoder) -> int:
    """The tokens that texts are cut to; a method that tunes nothing takes the encoder's limit."""
    if not method.tunes:
        return encoder.max_length
    return min(stage.training.max_length, encoder.max_length)


def is_file(source: str) -> bool:
    """Whether a source is a file, or a pattern of files."""
    kind, _, _ = source.partition(":")
    is_named = kind in {STDIN, "hub", *DATASETS}
    return not is_named and (os.path.exists(source) or glob.has_magic(source))


def read_entries(folder: Path) -> dict[str, dict[str, Any]]:
    """The entries of data.json, by the name of a stage's feed; none if the file is missing.

    Raises:
        InputError: the file is damaged.
    """
    entries = read_json(folder / DATA, missing_ok=True)
    if not isinstance(entries, dict):
        raise _damaged(folder, "it is no table")
    for title, entry in entries.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("overlap", {}), dict):
            raise _damaged(folder, f"{title} is no table")
    return entries


def _damaged(folder: Path, how: str) -> InputError:
    return InputError(f"{folder / DATA}: it is damaged ({how}); start again in another folder")


def _found(overlap: Overlap) -> dict[str, Shared]:
    """What the training text shares with each task, of those that share a text."""
    return {task: counts for task, counts in overlap.shared().items() if counts.sentences}


def _check_content(feed: Feed, store: TokenDataset, upsampled: bool) -> None:
    """Refuses data from which nothing can be learned, unless the recipe repeats them on purpose."""
    if upsampled:
        return
    count = store.fingerprint.sentences
    if store.fingerprint.distinct < 2:
        content = f"{count} sentences, all of them the same"
        if count == 1:
            content = "one sentence only"
        raise InputError(f"{feed.source_names}: {content}; training needs different sentences")
    if store.is_constant():
        raise InputError(
            f"{feed.source_names}: {counted(len(store), 'row')}, all of the same tokens, so there "
            "is nothing to learn from them; choose a model whose vocabulary has their words"
        )


def _sizes_in_shares(counts: Sequence[int], shares: Sequence[float]) -> list[int]:
    """How many rows to take of each source, of those that there are: as many as possible."""
    unit = min(count / share for count, share in zip(counts, shares, strict=True))
    sizes = []
    for count, share in zip(counts, shares, strict=True):
        sizes.append(min(count, round(unit * share)))
    return sizes


def _count(rows: Iterable[Row]) -> int:
    """How many rows there are. They are read one after another, and not kept in memory."""
    return sum(1 for _ in rows)


def _sample(rows: Iterable[Row], size: int, seed: int, upsample: bool = False) -> list[Row]:
    """Draws `size` rows in their order.

    `upsample` repeats them, to no more rows than there were.
    """
    drawn, count = _draw(rows, size, seed)
    if len(drawn) < size:
        raise InputError(
            f"sample {size} of {counted(len(drawn), 'row')}; give {len(drawn)} or less"
        )
    if upsample:
        return drawn * (count // size)
    return drawn


def _draw(rows: Iterable[Row], most: int, seed: int) -> tuple[list[Row], int]:
    """Draws `most` rows or all, in their order, and counts all rows.

    Only the rows that are drawn are held in memory.
    """
    random = Random(seed)
    drawn: list[tuple[int, Row]] = []
    count = 0
    for count, row in enumerate(rows, 1):
        if count <= most:
            drawn.append((count, row))
            continue
        slot = random.randrange(count)
        if slot < most:
            drawn[slot] = (count, row)
    return [row for _, row in sorted(drawn)], count

"""From a stage's sources to tokens: what is trained on, what is scored, and what the log says about the data."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from random import Random

from isotune.data import ScoredPairs, read
from isotune.data.cache import cache_folder
from isotune.data.draws import derive_seed
from isotune.data.overlap import Overlap, Shared
from isotune.data.rows import Row, Sentence, text_fields
from isotune.data.sources import FromPython, Rows, Source
from isotune.data.tokens import Fingerprint, TokenStore
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError, counted, telling
from isotune.files import read_json, write_text
from isotune.methods.method import ROWS, Feed, Method, Split
from isotune.recipes import Recipe, Stage, TrainingOptions
from isotune.training.recorder import RunContext

MOST_DRAWN = 1_000_000  # rows of a sample that nobody asked for, because a sample is held in memory
MANY_REPEATS = 0.1  # share of repeated texts above which the log warns
MANY_CUT = 0.1  # share of texts cut to the maximum length above which the log warns
MUCH_OVERLAP = 0.1  # share of a task's pairs in the training text above which the log warns


@dataclass(frozen=True)
class StageData:
    """The tokens of a stage."""

    train: Mapping[str, TokenStore]  # the training data by the name of the feed
    dev: Mapping[str, TokenStore]  # the labelled rows that choose the best step, by name
    test: Mapping[str, TokenStore]  # the labelled rows that score the best step, by name


@dataclass(frozen=True)
class Corpora:
    """Reads and tokenizes the data of a run."""

    recipe: Recipe  # names the sources
    rows: Iterable[FromPython] | None  # rows from Python that replace the recipe's sources
    evaluation: Sequence[
        ScoredPairs
    ]  # what the run is scored on; the log says how much of it is in the training text
    run: RunContext  # whose folder gets data.json and holds the tokens

    def check(self, first: int) -> None:
        """Checks that the sources of the recipe, from stage number `first` on, exist. No model is needed."""
        recipe = self.recipe
        named = [recipe.inputs(stage).data for stage in recipe.stages[first:]]
        for data in named:
            read(self._sources(data), Sentence)
        if (times := sum("-" in data for data in named)) > 1:
            raise InputError(
                f"-: standard input can be read only once, this run needs it {times} times; name a file"
            )

    def try_stage(self, stage: Stage, method: Method, encoder: Encoder) -> None:
        """Reads the first row of every source of a stage but standard input, and tokenizes one short row."""
        length = min(stage.training.max_length, encoder.max_length)
        for feed in self._feeds(stage, method).values():
            for name, source in zip(feed.data or ("rows",), self._sources(feed.data), strict=True):
                if name != "-":
                    next(self._read([source], feed, stage.training))
            method.tokenize(encoder, [["a"]] * len(text_fields(feed.rows)), length)
        for scored in (*method.scored("dev").values(), *method.scored("test").values()):
            for source in scored.data:
                next(read([source], scored.rows, self.recipe.columns))

    def sentences(self, method: Method) -> Iterator[str]:
        """The sentences of the first stage, whose method is given; none if it reads other rows, or standard input."""
        (feed, *others) = self._feeds(self.recipe.stages[0], method).values()
        if others or (feed.reads or feed.rows) is not Sentence or "-" in feed.data:
            return iter(())
        return (
            row.sentence for row in read(self._sources(feed.data), Sentence, self.recipe.columns)
        )

    def load(self, number: int, stage: Stage, method: Method, encoder: Encoder) -> StageData:
        """Reads and tokenizes the data of stage `number`, counted from 0."""
        length = min(stage.training.max_length, encoder.max_length)
        tokenize = partial(method.tokenize, encoder, max_length=length)
        columns = self.recipe.columns
        build = partial(
            TokenStore.build, tokenize=tokenize, max_length=length, folder=self.run.folder
        )
        train = {}
        for name, feed in self._feeds(stage, method).items():
            overlap = Overlap({pairs.source: pairs for pairs in self.evaluation})
            source_rows = self._read(self._sources(feed.data), feed, stage.training)
            sampled = self._sampled(source_rows, feed, stage.training)
            source = self._sources(feed.data)[0]
            cache = (
                cache_folder(source) if isinstance(source, str) else None
            )  # rows from Python have no folder
            rows = method.prepare(
                overlap.watch(sampled, feed.reads or feed.rows), cache, self.run.recorder.say
            )
            # Texts that are costly to make are made once: the other processes find them in the cache.
            with self.run.workers.leader_first() if feed.reads else nullcontext():
                train[name] = store = build(
                    rows, feed.rows, classes=feed.classes, keep_text=method.needs_text
                )
            shared = {task: counts for task, counts in overlap.shared().items() if counts.sentences}
            named = ", ".join(feed.data) or "rows"
            if store.fingerprint.distinct < 2 and not stage.training.as_released.upsample:
                count = store.fingerprint.sentences
                content = (
                    "one sentence only"
                    if count == 1
                    else f"{count} sentences, all of them the same"
                )
                raise InputError(f"{named}: {content}; training needs different sentences")
            if not stage.training.as_released.upsample and store.is_constant():
                raise InputError(
                    f"{named}: {counted(len(store), 'row')}, all of the same tokens, so there is "
                    "nothing to learn from them; choose a model whose vocabulary has their words"
                )
            title = f"stage {number + 1}" if name == ROWS else f"stage {number + 1}, {name}"
            self._record(title, feed.data, store.fingerprint, shared, source_rows.commits)
            self._describe(
                "data" if name == ROWS else f"data of {name}",
                store.fingerprint,
                shared,
                length,
                method,
            )

        def scored(split: Split) -> dict[str, TokenStore]:
            stores = {}
            for name, feed in method.scored(
                split
            ).items():  # all rows: options that leave rows out are for training
                stores[name] = build(
                    read(feed.data, feed.rows, columns), feed.rows, classes=feed.classes
                )
            return stores

        return StageData(train, scored("dev"), scored("test"))

    def _sampled(self, rows: Iterable[Row], feed: Feed, training: TrainingOptions) -> Iterable[Row]:
        """The rows, or a sample: a stage needs no more rows than its steps take, and no step takes a row again."""
        seed = derive_seed(self.recipe.seed, "sample")
        if training.sample:
            return _sample(rows, training.sample, seed, training.as_released.upsample)
        needed = feed.enough or (training.steps or 0) * (feed.batch_size or training.batch_size)
        if not 0 < needed <= MOST_DRAWN:
            return rows
        drawn, count = _draw(rows, needed, seed)
        if count > needed:
            text = f"the stage takes {needed:,} of the {count:,} rows, drawn with the seed; it has no use for more"
            self.run.recorder.say(text)
        return drawn

    def _feeds(self, stage: Stage, method: Method) -> Mapping[str, Feed]:
        data = self.recipe.inputs(stage).data
        return {
            name: replace(feed, data=feed.data or data) for name, feed in method.feeds().items()
        }

    def _read(self, sources: Sequence[Source], feed: Feed, training: TrainingOptions) -> Rows[Row]:
        words, score, positive = training.min_words, training.min_score, training.positive
        row_type, columns = feed.reads or feed.rows, self.recipe.columns
        return read(sources, row_type, columns, min_words=words, min_score=score, positive=positive)

    def _sources(self, data: tuple[str, ...]) -> Sequence[Source]:
        """The sources that `data` names; the rows from Python where a stage reads the recipe's data, which is empty."""
        if data:
            return data
        if self.rows is None:
            raise InputError(
                f"{self.run.folder}: this run was started with rows from Python; give the same rows again"
            )
        return [self.rows]

    def _record(
        self,
        title: str,
        sources: Sequence[str],
        fingerprint: Fingerprint,
        shared: Mapping[str, Shared],
        commits: Mapping[str, str],
    ) -> None:
        path = self.run.folder / "data.json"
        entry = {"sources": list(sources), **asdict(fingerprint)}
        known: Mapping[str, Mapping[str, object]] = read_json(path, missing_ok=True)
        shape = AttributeError, LookupError, TypeError  # of JSON of another shape
        with telling(shape, f"{path}: it is damaged", "; start again in another folder"):
            before = {key: known.get(title, entry)[key] for key in entry}
        if changed := [
            f"{key}: {value}, now {entry[key]}"
            for key, value in before.items()
            if value != entry[key]
        ]:
            raise InputError(
                f"{self.run.folder}: the data has changed since the run was started ({changed[0]}), so the run can't "
                "continue; give the same data, or start again in another folder"
            )
        if commits:
            entry["commits"] = dict(commits)
        if shared:
            entry["overlap"] = {task: counts._asdict() for task, counts in shared.items()}
        content = json.dumps({**known, title: entry}, indent=2) + "\n"
        self.run.workers.by_leader(partial(write_text, path, content))

    def _describe(
        self,
        title: str,
        data: Fingerprint,
        shared: Mapping[str, Shared],
        length: int,
        method: Method,
    ) -> None:
        recorder, different = self.run.recorder, counted(data.distinct, "different text")
        recorder.say(
            f"{title}: {counted(data.rows, 'row')}, {different}, {counted(data.tokens, 'token')}"
        )
        repeats = 1 - data.distinct / data.sentences
        if repeats > MANY_REPEATS and method.separates_copies:
            recorder.warn(
                0,
                f"{repeats:.0%} of the texts are repeats; training pushes a text and its copy apart",
            )
        if data.cut > MANY_CUT * data.sentences:
            recorder.warn(
                0, f"{data.cut / data.sentences:.0%} of the texts are cut at {length} tokens"
            )
        for task, counts in shared.items():
            pairs = (
                f"; for {counts.pairs:,} of its {counts.of_pairs:,} pairs both are"
                if counts.of_pairs
                else ""
            )
            texts = f"{counts.sentences:,} of the {counts.of_sentences:,} texts of {task} are in the training text"
            recorder.say(f"overlap: {texts}{pairs}")
        shares = {
            task: counts[2:4] if counts.of_pairs else counts[:2] for task, counts in shared.items()
        }
        if heavy := [task for task, (found, of) in shares.items() if found > MUCH_OVERLAP * of]:
            recorder.warn(
                0,
                f"sentences of {', '.join(heavy)} are in the training text: the encoder has seen the text that these "
                "scores are measured on (data.json has the counts)",
            )


def _sample(rows: Iterable[Row], size: int, seed: int, upsample: bool = False) -> list[Row]:
    """Draws `size` rows in their order; `upsample` repeats them, to no more rows than there were."""
    drawn, count = _draw(rows, size, seed)
    if len(drawn) < size:
        raise InputError(
            f"sample {size} of {counted(len(drawn), 'row')}; give {len(drawn)} or less"
        )
    return drawn * (count // size if upsample else 1)


def _draw(rows: Iterable[Row], most: int, seed: int) -> tuple[list[Row], int]:
    """Draws `most` rows or all, in their order, and counts all rows; only those drawn are held in memory."""
    random = Random(seed)
    drawn: list[tuple[int, Row]] = []
    count = 0
    for count, row in enumerate(rows, 1):
        if count <= most:
            drawn.append((count, row))
        elif (slot := random.randrange(count)) < most:
            drawn[slot] = count, row
    return [row for _, row in sorted(drawn)], count

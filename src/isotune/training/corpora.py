"""From a stage's sources to tokens: what is trained on, what labelled rows are scored, and what the log says of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random

from isotune.data import ScoredPairs, read
from isotune.data.cache import cache_folder
from isotune.data.overlap import Overlap, Shared
from isotune.data.rows import Row, Sentence, text_fields
from isotune.data.sources import Source
from isotune.data.tokens import Fingerprint, Tokenize, Tokenized, TokenStore
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.files import write_text
from isotune.methods.method import Feed, Method
from isotune.recipes import Recipe, Stage, TrainingOptions
from isotune.training.recorder import Recorder
from isotune.training.seeds import derive_seed


class Corpora:
    """Reads and tokenises the corpora of a run."""

    def __init__(
        self,
        plan: Recipe,
        rows: Iterable[str | Row] | None,
        evaluation: Sequence[ScoredPairs],
        folder: Path,
        recorder: Recorder,
    ) -> None:
        """Takes rows in place of all sources, if there are any, and what the run is evaluated on."""
        self.plan = plan
        self.rows = rows
        self.evaluation = {f"{pairs.name}:{pairs.split}".rstrip(":"): pairs for pairs in evaluation}
        self.folder = folder
        self.recorder = recorder

    def check(self, first: int) -> None:
        """Looks for the data of the recipe and of the stages from number `first` on, before a model is loaded.

        Raises:
            InputError: a source isn't there, or standard input is to be read more than once.
        """
        plan = self.plan
        readings = [plan.inputs(stage).data for stage in plan.stages[first:]]
        if plan.scratch and not first:
            readings.append(plan.stages[0].data or plan.data)  # for the vocabulary
        for data in readings:
            read(self._sources(data), Sentence)
        if (times := sum("-" in data for data in readings)) > 1:
            raise InputError(f"-: standard input can be read only once, this run needs it {times} times; name a file")

    def look(self, stage: Stage, method: Method, encoder: Encoder) -> None:
        """Reads the first row of every source of a stage but standard input, and tokenises a row of next to nothing.

        Raises:
            InputError: a source isn't there or has no such rows, or a prompt leaves no room.
        """
        feeds = [*self._feeds(stage, method).values(), *method.dev_feeds().values()]
        for feed in feeds:
            for source in self._sources(feed.data):
                if source != "-":
                    next(self._read([source], feed, stage.training))
        _tokenizer(method, encoder, _length(stage, encoder))([["a"]] * len(text_fields(method.rows)))

    def texts(self) -> Iterator[str]:
        """The text of the first stage, to make a vocabulary from.

        Raises:
            InputError: a source can't be used.
        """
        rows = read(self._sources(self.plan.stages[0].data or self.plan.data), Sentence, self.plan.columns)
        return (row.sentence for row in rows)

    def train(self, number: int, stage: Stage, method: Method, encoder: Encoder) -> dict[str, TokenStore]:
        """What stage `number` (from 0) trains on: under "", or where the method has feeds under their names.

        What is in it goes to data.json, and has to be the same on a resume.

        Raises:
            InputError: a source can't be used, or the data has changed since the run was started.
        """
        stores = {}
        for name, feed in self._feeds(stage, method).items():
            overlap = Overlap(self.evaluation)
            stores[name] = store = self._tokenized(feed, overlap, stage, method, encoder)
            shared = {name: found for name, found in overlap.shared().items() if found.sentences}
            title = f"stage {number + 1}, {name}" if name else f"stage {number + 1}"
            self._record(title, feed.data, store.fingerprint, shared)
            self._describe(name, store.fingerprint, shared, _length(stage, encoder))
        return stores

    def dev(self, stage: Stage, method: Method, encoder: Encoder) -> dict[str, TokenStore]:
        """The labelled rows that the method is scored on."""
        length = _length(stage, encoder)
        stores = {}
        for name, feed in method.dev_feeds().items():
            rows = self._read(feed.data, feed, stage.training)
            tokenize = _tokenizer(method, encoder, length)
            stores[name] = TokenStore.build(rows, feed.rows, tokenize, length, self.folder, classes=feed.classes)
        return stores

    def _tokenized(self, feed: Feed, overlap: Overlap, stage: Stage, method: Method, encoder: Encoder) -> TokenStore:
        training, length = stage.training, _length(stage, encoder)
        rows: Iterable[Row] = self._read(self._sources(feed.data), feed, training)
        if training.sample:
            rows = _drawn(rows, training.sample, derive_seed(self.plan.seed, "sample"))
        rows, kind = overlap.watch(rows, feed.rows), feed.rows
        if not method.feeds():
            rows, kind = method.prepare(rows, self._cache(feed.data), self.recorder.say), method.rows
        return TokenStore.build(
            rows,
            kind,
            _tokenizer(method, encoder, length),
            length,
            self.folder,
            classes=feed.classes,
            keep_text=method.needs_text,
        )

    def _feeds(self, stage: Stage, method: Method) -> Mapping[str, Feed]:
        """What a stage trains on: under "" where the method has no feeds."""
        return method.feeds() or {"": Feed(method.reads, stage.data or self.plan.data, classes=method.classes)}

    def _read(self, sources: Sequence[Source], feed: Feed, training: TrainingOptions) -> Iterator[Row]:
        """Rows of a feed's kind; those to score on are all that there are."""
        columns = self.plan.columns
        if feed.metrics:
            return read(sources, feed.rows, columns)
        return read(sources, feed.rows, columns, min_words=training.min_words, min_score=training.min_score)

    def _sources(self, data: tuple[str, ...]) -> Sequence[Source]:
        """What `data` names. Rows from Python stand for the run's own sources, not for those a stage names."""
        return data if self.rows is None or data != self.plan.data else [self.rows]

    def _cache(self, data: tuple[str, ...]) -> Path | None:
        """Where derived text is kept: nowhere for rows from Python."""
        source = self._sources(data)[0]
        return cache_folder(source) if isinstance(source, str) else None

    def _record(self, title: str, sources: Sequence[str], found: Fingerprint, shared: Mapping[str, Shared]) -> None:
        if found.distinct < 2:
            what = "one sentence only" if found.sentences == 1 else f"{found.sentences} sentences, all of them the same"
            raise InputError(f"{', '.join(sources)}: {what}; contrastive learning needs different ones")
        path = self.folder / "data.json"
        known: Mapping[str, Mapping[str, object]] = json.loads(path.read_text("utf-8")) if path.exists() else {}
        entry = {"sources": list(sources), **asdict(found)}
        if not entry.items() <= known.get(title, entry).items():
            raise InputError(
                f"{self.folder}: the data is not what the run was started with, so it can't go on; give the same, or "
                "start anew in another folder"
            )
        if shared:
            entry["overlap"] = {name: one._asdict() for name, one in shared.items()}
        write_text(path, json.dumps({**known, title: entry}, indent=2) + "\n")

    def _describe(self, name: str, found: Fingerprint, shared: Mapping[str, Shared], length: int) -> None:
        title = f"data of {name}" if name else "data"
        self.recorder.say(f"{title}: {found.rows:,} rows, {found.distinct:,} different texts, {found.tokens:,} tokens")
        if found.distinct < 0.9 * found.sentences:
            share = 1 - found.distinct / found.sentences
            self.recorder.warn(
                0, f"{share:.0%} of the texts are repeats; a text and its copy are told apart all the same"
            )
        if found.cut > 0.1 * found.sentences:
            self.recorder.warn(0, f"{found.cut / found.sentences:.0%} of the texts are cut at {length} tokens")
        for task, one in shared.items():
            self.recorder.say(
                f"overlap: {one.sentences:,} of the {one.of_sentences:,} sentences of {task} are in the training "
                f"text; of {one.pairs:,} of its {one.of_pairs:,} pairs both are, together or apart"
            )
        if heavy := [task for task, one in shared.items() if one.pairs > 0.1 * one.of_pairs]:
            self.recorder.warn(
                0,
                f"sentences of {', '.join(heavy)} are in the training text: scores on them are those of an encoder "
                "that has seen the text (data.json has the counts)",
            )


def _drawn(rows: Iterable[Row], size: int, seed: int) -> list[Row]:
    """`size` of the rows, each as likely as any other, in their order; memory doesn't grow with the others.

    Raises:
        InputError: there are fewer.
    """
    random = Random(seed)
    kept: list[tuple[int, Row]] = []
    for place, row in enumerate(rows):
        if place < size:
            kept.append((place, row))
        elif (slot := random.randrange(place + 1)) < size:
            kept[slot] = place, row
    if len(kept) < size:
        raise InputError(f"sample {size} is more than the data has ({len(kept)} rows); give {len(kept)} or less")
    return [row for _, row in sorted(kept)]


def _length(stage: Stage, encoder: Encoder) -> int:
    """Tokens that a stage cuts sentences to."""
    return min(stage.training.max_length, encoder.max_length)


def _tokenizer(method: Method, encoder: Encoder, length: int) -> Tokenize:
    """How a method's rows are tokenised: each text by itself, or both as one sequence."""

    def tokenize(columns: Sequence[list[str]]) -> Tokenized:
        if method.joint:
            first, second = columns
            ids, firsts = encoder.tokenize_pairs(first, second, length)
            return Tokenized([ids], firsts)
        prompts = method.prompts() or (None,) * len(columns)
        return Tokenized(
            [encoder.tokenize(texts, length, prompt) for texts, prompt in zip(columns, prompts, strict=True)]
        )

    return tokenize

"""A look at a source before anybody trains: what is in it, and which commands fit.

`look` reads the whole source once. `glance` reads its first rows only, for the beginning of a run.
No torch here, but where a model counts the tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from isotune.data.catalogue import DATASETS
from isotune.data.columns import Column, Spread, describe_columns, scripts, spread, text_of
from isotune.data.derived import RowQuery
from isotune.data.rows import Record, Sentence, copy_key, row_of_each
from isotune.data.sources import Source, read_records
from isotune.errors import counted
from isotune.recipes.doors import FINISHED, UNNAMED, Door, Doorway, find_doors

if TYPE_CHECKING:
    from isotune.encoder.encoder import Encoder

MOST_ROWS = 100_000
"""The rows that are looked at; later rows are only counted."""

MOST_CHARACTERS = 50_000_000
"""The characters of these rows: no more rows are looked at after so many."""

FIRST_ROWS = 2_000
"""The rows at which the beginning of a run glances."""

TRAINED_LENGTH = 64
"""The tokens that most recipes train on (`TrainingOptions.max_length`)."""

MOST_TOKENS = 10_000
"""The tokens of a text that are counted."""

WORDS_OF_A_TEXT = 4
"""The name of a column has fewer words."""


@dataclass(frozen=True)
class Look:
    """What is in a source, and which commands fit."""

    source: str
    """The source, as it was named."""

    format: str
    """The endings of its files, or what else it is."""

    rows: int | None
    """How many rows there are; None after a glance at a source that may have more."""

    looked_at: int
    """The first rows, of which everything else is told."""

    blank: int
    """Rows that have no text in some column of text."""

    repeated: int
    """Rows whose texts all stand in an earlier row; letters and digits are compared."""

    scripts: Mapping[str, float]
    """The share of each script of Unicode among the letters, the largest first."""

    columns: tuple[Column, ...]
    """What each column holds."""

    model: str
    """The model that counted the tokens; empty if none did."""

    cut: float | None
    """The share of texts with more than `TRAINED_LENGTH` tokens; None without a model."""

    doors: tuple[Door, ...]
    """The commands that fit, the best first; none if there is no text."""

    def __str__(self) -> str:
        """What `isotune look` prints."""
        return "\n".join(_lines(self))

    def in_short(self, suggests: bool) -> Iterator[str]:
        """What the beginning of a run says: a line of what is in the source.

        If it `suggests`, a second line has the door that fits best, where that door makes more of
        the columns than texts.
        """
        facts = [_rows_words(self)]
        if len(self.columns) > 1:
            kinds = [f"{column.name} ({_kind(column)})" for column in self.columns]
            facts.append(f"columns {', '.join(kinds)}")
        if self.scripts:
            facts.append(_scripts_words(self.scripts))
        for column in self.columns:
            if column.words:
                facts.append(f"{_spread_words(column.words)} words in {column.name}")
        if self.repeated:
            facts.append(f"{self.repeated:,} repeated")
        yield f"{self.source}: {'; '.join(facts)}"
        if suggests and self.doors and self.doors[0].rows != Sentence.__name__:
            best = self.doors[0]
            yield f"another way may fit better: {best.why}: {best.command}"


def look(source: Source, model: str | Path | None = None) -> Look:
    """Looks at a source before anybody trains.

    Args:
        source: a file, a pattern, a named dataset, "hub:...", "-", or rows, as `read` takes them.
        model: the encoder that counts the tokens of texts; its weights are not loaded. It is also
            the start in the commands.

    Returns:
        A `Look`, which prints as `isotune look` does.

    Raises:
        InputError: the source is missing, is no text, or a row of it is malformed.
    """
    return _look(source, model, MOST_ROWS, counts_all=True)


def glance(source: Source) -> Look:
    """Looks at the first rows of a source alone; raises `InputError` as `look` does."""
    return _look(source, None, FIRST_ROWS, counts_all=False)


def _look(source: Source, model: str | Path | None, most: int, *, counts_all: bool) -> Look:
    files = read_records(source, RowQuery(Sentence))
    records = _records(file.records for file in files)
    first, may_have_more = _first(records, most)
    rows = None
    if counts_all or not may_have_more:
        rows = len(first) + sum(1 for _ in records)
    columns = describe_columns(first)
    name = str(source) if isinstance(source, str | Path) else "rows"
    doorway = Doorway(_as_argument(name), columns, len(first), model=str(model or ""))
    texts = [column.name for column in doorway.texts]
    contents = _contents(first, texts)
    shares = scripts(chain.from_iterable(contents))
    cut = None
    if model is not None and any(map(any, contents)):
        columns, cut = _with_tokens(columns, first, texts, model)
    doorway = replace(doorway, columns=columns, scripts=shares)
    return Look(
        source=name,
        format=_format([file.place for file in files], name),
        rows=rows,
        looked_at=len(first),
        blank=_blank(contents),
        repeated=_repeated(contents),
        scripts=shares,
        columns=tuple(columns),
        model=str(model or ""),
        cut=cut,
        doors=tuple(find_doors(doorway)),
    )


def _records(files: Iterable[Iterable[tuple[int, Record]]]) -> Iterator[Record]:
    """The records of files, one after another."""
    for records in files:
        for _, record in records:
            yield record


def _first(records: Iterator[Record], most: int) -> tuple[list[Record], bool]:
    """The first records, up to `most` or to `MOST_CHARACTERS`, and whether more may follow."""
    first = []
    characters = 0
    for record in islice(records, most):
        first.append(record)
        characters += sum(len(text_of(record, name)) for name in record)
        if characters > MOST_CHARACTERS:
            return first, True
    return first, len(first) == most


def _contents(records: Iterable[Record], texts: Sequence[str]) -> list[list[str]]:
    """The texts of the records, in the order of the columns `texts`."""
    return [[text_of(record, column) for column in texts] for record in records]


def _blank(contents: Iterable[Sequence[str]]) -> int:
    """How many rows lack a text."""
    return sum(1 for content in contents if not all(content))


def _repeated(contents: Iterable[Sequence[str]]) -> int:
    """How many rows have only texts of an earlier row; rows without text are no repeats."""
    seen: set[tuple[bytes, ...]] = set()
    repeated = 0
    for content in contents:
        if not any(content):
            continue
        key = tuple(map(copy_key, content))
        if key in seen:
            repeated += 1
        seen.add(key)
    return repeated


def _format(places: Sequence[str], name: str) -> str:
    """The endings of the files, or what else a source is."""
    if name == "-":
        return "standard input, one sentence a line"
    if name == "rows":
        return "rows from Python"
    if name.startswith("hub:"):
        return "a dataset or file on the hub"
    if name.partition(":")[0] in DATASETS:
        return "a named dataset"
    endings = dict.fromkeys(map(_ending, places))
    return f"{counted(len(places), 'file')}, {', '.join(endings)}"


def _as_argument(name: str) -> str:
    """The name of a source as a command takes it: no option, though its name may begin with -."""
    if name.startswith("-") and name != "-":
        return f"./{name}"
    return name


def _ending(place: str) -> str:
    """The ending of a file's name, and the one before ".gz" too."""
    *_, before, last = ["", *Path(place).suffixes]
    if last == ".gz":
        return before + last
    return last


def _with_tokens(
    columns: Sequence[Column], records: Sequence[Record], texts: Sequence[str], model: str | Path
) -> tuple[list[Column], float]:
    """The columns with the tokens of their texts, and the share of texts that training cuts."""
    from isotune.encoder.encoder import Encoder

    encoder = Encoder.outline(model)
    counted_columns = []
    lengths: list[int] = []
    for column in columns:
        if column.name in texts:
            of_column = _token_counts(encoder, records, column.name)
            lengths += of_column
            column = replace(column, tokens=spread(of_column))
        counted_columns.append(column)
    cut = sum(1 for length in lengths if length > TRAINED_LENGTH) / len(lengths)
    return counted_columns, cut


def _token_counts(encoder: Encoder, records: Iterable[Record], name: str) -> list[int]:
    """The number of tokens of each text of a column, special tokens included."""
    texts = [text_of(record, name) for record in records]
    ids_of_texts = encoder.tokenize([text for text in texts if text], MOST_TOKENS)
    return [len(ids) for ids in ids_of_texts]


def _lines(look: Look) -> Iterator[str]:
    """What `isotune look` prints, line by line."""
    yield f"{look.source}: {look.format}"
    yield f"  {_rows_words(look)}"
    if any(len(column.name.split()) >= WORDS_OF_A_TEXT for column in look.columns):
        yield "  the first line looks like a row of texts, and has to name the columns"
    yield f"  {counted(look.blank, 'row')} with a blank text, {look.repeated:,} repeated"
    if look.scripts:
        yield f"  script of the letters: {_scripts_words(look.scripts)}"
    yield from _lines_of_columns(look)
    yield ""
    if not look.doors:
        yield "no command fits: a column of text is needed"
        return
    yield "what fits, best first:"
    for number, door in enumerate(look.doors, 1):
        yield f"{number}. {door.command}"
        yield f"   {door.why}"
        if door.measured:
            yield f"   measured elsewhere: {door.measured}"
    if not look.model:
        yield ""
        yield _of_the_model(look)


def _lines_of_columns(look: Look) -> Iterator[str]:
    """What each column holds, and what to do with texts that are long or in lists."""
    for column in look.columns:
        yield f"  {column.name}: {', '.join(_facts(column, look.looked_at))}"
    if look.cut is not None:
        yield (
            f"  {look.cut:.0%} of the texts have more than {TRAINED_LENGTH} tokens of "
            f"{look.model}, at which most recipes cut them (--max-length)"
        )
    lists = [column.name for column in look.columns if column.kind == "text lists"]
    if lists:
        yield (
            "  lists of texts are not read; of a .jsonl file, this makes a row of each text, and "
            f"none of an empty list: {row_of_each(lists)}"
        )


def _of_the_model(look: Look) -> str:
    """What the commands start from, where no model was named."""
    if any(UNNAMED in door.command.split() for door in look.doors):
        return f"{UNNAMED} stands for an encoder that knows the languages of this script"
    return f"{FINISHED} is an encoder for English; name one for other languages by --model"


def _rows_words(look: Look) -> str:
    if look.rows is None:
        return f"the first {counted(look.looked_at, 'row')}"
    if look.looked_at < look.rows:
        return f"{counted(look.rows, 'row')}; the first {look.looked_at:,} are looked at"
    return counted(look.rows, "row")


def _scripts_words(shares: Mapping[str, float]) -> str:
    """The scripts that have a hundredth of the letters or more, with their shares."""
    parts = [f"{script} {share:.0%}" for script, share in shares.items() if share >= 0.01]
    return ", ".join(parts)


def _facts(column: Column, rows: int) -> Iterator[str]:
    """What a column holds, fact by fact."""
    yield _kind(column)
    if len(column.classes) > 1:
        label, count = column.classes[0]
        yield f"the largest is {label!r} with {count / column.filled:.0%}"
    elif column.numbers:
        low, high = column.numbers
        yield f"{low:g} to {high:g}"
    if column.kind == "text":
        yield f"{column.different:,} different"
    if column.filled < rows:
        yield f"{rows - column.filled:,} blank"
    lengths = {"characters": column.characters, "words": column.words, "tokens": column.tokens}
    for unit, lengths_of_unit in lengths.items():
        if lengths_of_unit:
            yield f"{_spread_words(lengths_of_unit)} {unit}"


def _kind(column: Column) -> str:
    """The kind of a column in words."""
    if column.kind == "label lists":
        return f"lists of {counted(column.different, 'label')}"
    if len(column.classes) == 1:
        return f"always {column.classes[0][0]!r}"
    if column.kind == "labels":
        return counted(column.different, "label")
    if column.kind == "text lists":
        return f"lists of {counted(column.different, 'text')}"
    if column.kind == "words":
        return "single words, such as ids or dates"
    if column.kind == "other":
        return "no plain text or number"
    if column.questions > 0.5:
        return "text, mostly questions"
    return column.kind


def _spread_words(lengths: Spread) -> str:
    return f"{lengths.median:,} ({lengths.low:,} to {lengths.high:,})"

"""What only a few methods do. The trainer asks with `isinstance` which of these classes a method is."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from isotune.data.rows import Row, Sentence
from isotune.encoder.encoder import Encoder
from isotune.methods.method import Batch, Method

SINGLE_FEED = ""
"""The name of the feed of a method that reads rows of one type only."""


@dataclass(frozen=True)
class Feed:
    """A source of rows beside others."""

    rows: type[Row]  # the row type
    data: tuple[str, ...]  # the sources, as `data.read` takes them
    batch_size: int = 0  # rows of this feed in one update
    classes: tuple[str, ...] = ()  # the labels of labelled rows, in the order of their class numbers
    metrics: tuple[str, ...] = ()  # of `evaluation.metrics`, where the feed is for scoring
    part: tuple[float, float] = (0.0, 1.0)  # where the rows to score on begin and end, as shares of all rows


class DerivesRows(ABC):
    """A method that reads rows of one type and trains on rows of another, made from the first."""

    reads: type[Row]
    """The row type in the source."""

    @abstractmethod
    def prepare(self, rows: Iterable[Row], cache: Path | None, say: Callable[[str], None]) -> Iterator[Row]:
        """Converts rows of the source into the rows that are tokenized, as a stream.

        `cache` is a folder for texts that are costly to make, if there is one. `say` writes a line into the run's log.
        """


class SeveralFeeds(ABC):
    """A method that reads rows of several types in one update."""

    @abstractmethod
    def feeds(self) -> Mapping[str, Feed]:
        """The feeds by name. `Batch.tasks` has a batch for each."""


class ScoresRows(ABC):
    """A method that is scored by its own predictions on labelled rows, in place of the run's dev pairs."""

    @abstractmethod
    def dev_feeds(self) -> Mapping[str, Feed]:
        """The labelled rows by name. The mean of all their metrics chooses the best step."""

    def test_feeds(self) -> Mapping[str, Feed]:
        """The labelled rows, by the names of dev feeds, that score the best step and choose nothing; often none."""
        return {}

    @abstractmethod
    def predict(self, name: str, encoded: Sequence[Tensor]) -> Tensor:
        """Class numbers or scores [N] for rows of the feed `name`, from the vectors of their views."""


class ClosedForm(Method):
    """A method that minimises nothing: its result follows from the vectors of all texts, which are computed once."""

    rows = Sentence
    cached = True

    def check(self, texts: int) -> None:
        """Checks that the number of texts is enough, before anything is computed."""

    def count(self, encoder: Encoder, counts: Tensor) -> None:
        """Gets the number of times [vocabulary] that each token id occurs, before the vectors are computed."""

    @abstractmethod
    def fit(self, encoder: Encoder, vectors: Tensor) -> None:
        """Sets the weights of the layers that the method has added, from the pooled vectors [N, d] of all texts."""

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """No terms."""
        return {}

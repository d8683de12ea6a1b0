"""Multitask fine-tuning (BERT-CF, sections 4.3, 5.2.2 and 5.3): sentiment, paraphrase and similarity in every update.

Each task has a linear layer on the sentence vector. Sentiment is classified by cross entropy. Paraphrase and similarity
compare the hinged cosine of two projected vectors: paraphrase by the cosine embedding loss, similarity by its squared
error from the score scaled to [h, 1]. The mean of two accuracies and Pearson's correlation chooses the best step.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from isotune.data.rows import HIGHEST_SCORE, LabelledPair, LabelledSentence, Row, ScoredPair
from isotune.encoder.encoder import Encoder
from isotune.losses import cosine_embedding, hinged_cosine
from isotune.methods.method import Batch, Feed, Method, ScoredFeed, Split
from isotune.methods.options import MultitaskOptions


class Multitask(Method):
    """Three tasks, three heads, one update."""

    options: MultitaskOptions

    def __init__(self, options: MultitaskOptions, encoder: Encoder) -> None:
        super().__init__(options, encoder)
        # Of each task the name, with which the names of its options begin, the rows, their labels, and the metric.
        self.tasks: Sequence[tuple[str, type[Row], tuple[str, ...], str]] = (
            ("sentiment", LabelledSentence, options.sentiment_classes, "accuracy"),
            ("paraphrase", LabelledPair, ("0", "1"), "accuracy"),
            ("similarity", ScoredPair, (), "pearson"),
        )
        d = encoder.dimension
        self.sentiment = nn.Sequential(
            nn.Dropout(options.sentiment_dropout), nn.Linear(d, len(options.sentiment_classes))
        )
        self.paraphrase = nn.Linear(d, options.projection)
        self.similarity = nn.Sequential(
            nn.Dropout(options.similarity_dropout), nn.Linear(d, options.projection)
        )

    def feeds(self) -> Mapping[str, Feed]:
        """The training rows of each task."""
        return {
            task: Feed(
                rows,
                data=self._option(task, "data"),
                batch_size=self._option(task, "batch_size"),
                classes=classes,
            )
            for task, rows, classes, _ in self.tasks
        }

    def scored(self, split: Split) -> Mapping[str, ScoredFeed]:
        """The rows of the tasks that have some: for dev section 5.2.2, for test Table 2."""
        return {
            task: ScoredFeed(rows, data, {task: metric}, classes)
            for task, rows, classes, metric in self.tasks
            if (data := self._option(task, split))
        }

    def _option(self, task: str, name: str) -> Any:
        return getattr(self.options, f"{task}_{name}")

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """The three weighted terms of L_FT."""
        o = self.options
        labels, alike, scores = (cast(Tensor, batch.feeds[name].targets) for name in self.feeds())
        cosines = _cosines(self.paraphrase, encoded[1:3], o.paraphrase_hinge)
        similarities = _cosines(self.similarity, encoded[3:5], o.similarity_hinge)
        h = o.similarity_hinge
        return {
            "sentiment": o.sentiment_weight * cross_entropy(self.sentiment(encoded[0]), labels),
            "paraphrase": o.paraphrase_weight
            * cosine_embedding(cosines, alike == 1, o.paraphrase_hinge),
            "similarity": o.similarity_weight
            * mse_loss(similarities, h + (1 - h) * scores / HIGHEST_SCORE),
        }

    def predict(self, name: str, encoded: Sequence[Tensor]) -> Tensor:
        """Predictions [N]: the most likely class; 1 where the cosine is above the middle of [h, 1]; the score."""
        o = self.options
        if name == "sentiment":
            return self.sentiment(encoded[0]).argmax(1)
        if name == "paraphrase":
            return (
                _cosines(self.paraphrase, encoded, o.paraphrase_hinge)
                >= (1 + o.paraphrase_hinge) / 2
            ).long()
        h = o.similarity_hinge
        return HIGHEST_SCORE * (_cosines(self.similarity, encoded, h) - h) / (1 - h)


def _cosines(project: nn.Module, encoded: Sequence[Tensor], hinge: float) -> Tensor:
    """The hinged cosine of both sentences' projections: two [N, d] -> [N]."""
    first, second = map(project, encoded)
    return hinged_cosine(first, second, hinge)

"""Multitask fine-tuning (BERT-CF, sections 4.3, 5.2.2 and 5.3).

Every update has rows of three tasks: sentiment, paraphrase and similarity. Each task has a linear
layer on the sentence vector. Sentiment is classified by cross entropy. Paraphrase and similarity
compare the hinged cosine of two projected vectors: paraphrase by the cosine embedding loss,
similarity by its squared error from the score scaled to [h, 1]. The mean of two accuracies and
Pearson's correlation chooses the best step.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from isotune.data.rows import HIGHEST_SCORE, LabelledPair, LabelledSentence, Row, ScoredPair
from isotune.encoder.classifier_head import ClassifierHead, HeadSettings
from isotune.encoder.encoder import Encoder
from isotune.losses import cosine_embedding, hinged_cosine
from isotune.methods.method import Batch, Feed, Method, ScoredFeed, Split
from isotune.methods.options import MultitaskOptions


class Task(NamedTuple):
    """One of the three tasks. The names of its options begin with its name."""

    name: str
    rows: type[Row]
    classes: tuple[str, ...]
    """The labels of the rows, if they have labels."""

    metric: str


class Multitask(Method):
    """Three tasks, three heads, one update."""

    options: MultitaskOptions

    def __init__(self, options: MultitaskOptions, encoder: Encoder) -> None:
        super().__init__(options, encoder)
        self.tasks = (
            Task("sentiment", LabelledSentence, options.sentiment_classes, "accuracy"),
            Task("paraphrase", LabelledPair, ("0", "1"), "accuracy"),
            Task("similarity", ScoredPair, (), "pearson"),
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
        feeds = {}
        for task in self.tasks:
            feeds[task.name] = Feed(
                task.rows,
                data=self._option(task, "data"),
                batch_size=self._option(task, "batch_size"),
                classes=task.classes,
            )
        return feeds

    def scored(self, split: Split) -> Mapping[str, ScoredFeed]:
        """The rows of the tasks that have some: for dev section 5.2.2, for test Table 2."""
        feeds = {}
        for task in self.tasks:
            data = self._option(task, split)
            if data:
                metrics = {task.name: task.metric}
                feeds[task.name] = ScoredFeed(task.rows, data, metrics, task.classes)
        return feeds

    def _option(self, task: Task, name: str) -> Any:
        return getattr(self.options, f"{task.name}_{name}")

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """The three weighted terms of L_FT."""
        options = self.options
        labels, alike, scores = (cast(Tensor, batch.feeds[name].targets) for name in self.feeds())
        cosines = _cosines(self.paraphrase, encoded[1:3], options.paraphrase_hinge)
        paraphrase = cosine_embedding(cosines, alike == 1, options.paraphrase_hinge)
        h = options.similarity_hinge
        # Dropout draws for the similarity first, and then for the sentiment.
        similarities = _cosines(self.similarity, encoded[3:5], h)
        similarity = mse_loss(similarities, h + (1 - h) * scores / HIGHEST_SCORE)
        sentiment = cross_entropy(self.sentiment(encoded[0]), labels)
        return {
            "sentiment": options.sentiment_weight * sentiment,
            "paraphrase": options.paraphrase_weight * paraphrase,
            "similarity": options.similarity_weight * similarity,
        }

    def classifiers(self, max_length: int) -> Mapping[str, ClassifierHead]:
        """The layer of the sentiment, on the encoder's own vectors."""
        layer = cast(nn.Linear, self.sentiment[1])
        settings = HeadSettings(
            kind="single", labels=self.options.sentiment_classes, max_length=max_length
        )
        return {"sentiment": ClassifierHead.of_layer(layer, settings)}

    def predict(self, name: str, encoded: Sequence[Tensor]) -> Tensor:
        """The most likely class [N]; 1 where two texts are called paraphrases; or the score.

        Paraphrases have a cosine above the middle of [h, 1].
        """
        if name == "sentiment":
            return self.sentiment(encoded[0]).argmax(1)
        if name == "paraphrase":
            h = self.options.paraphrase_hinge
            cosines = _cosines(self.paraphrase, encoded, h)
            return (cosines >= (1 + h) / 2).long()
        h = self.options.similarity_hinge
        return HIGHEST_SCORE * (_cosines(self.similarity, encoded, h) - h) / (1 - h)


def _cosines(project: nn.Module, encoded: Sequence[Tensor], hinge: float) -> Tensor:
    """The hinged cosine of both sentences' projections: two [N, d] -> [N]."""
    first, second = map(project, encoded)
    return hinged_cosine(first, second, hinge)

"""Multitask fine-tuning (BERT-CF, sections 4.3, 5.2.2 and 5.3): sentiment, paraphrase and similarity in every update.

Each task has a linear layer of its own on the encoder's vector f(x), which is the encoder's as it stands, its heads
(BERT-CF's flow) included. Sentiment is classified by cross entropy. Paraphrases and similar sentences are told by the
cosine of two projections, which counts as the hinge where it is below it: in [h, 1], by the cosine embedding loss, and
by the squared error from the score scaled to [h, 1]. All weights are trained, and the mean of accuracy, accuracy and
Pearson's correlation on the dev data chooses the best step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from isotune.data.rows import LabelledPair, LabelledSentence, ScoredPair
from isotune.encoder.encoder import Encoder
from isotune.losses import cosine_embedding, hinged_cosine
from isotune.methods.method import Batch, Feed, Method, View
from isotune.methods.options.multitask import MultitaskOptions

PARAPHRASE_CLASSES = ("0", "1")


class Multitask(Method):
    """Three tasks, three heads, one update."""

    rows = LabelledSentence

    def __init__(self, options: MultitaskOptions, encoder: Encoder) -> None:
        super().__init__()
        self.options = options
        d = encoder.dimension
        self.sentiment = nn.Sequential(
            nn.Dropout(options.sentiment_dropout), nn.Linear(d, len(options.sentiment_classes))
        )
        self.paraphrase = nn.Linear(d, options.projection)
        self.similarity = nn.Sequential(nn.Dropout(options.similarity_dropout), nn.Linear(d, options.projection))

    def feeds(self) -> Mapping[str, Feed]:
        """The rows of an update."""
        o = self.options
        return {
            "sentiment": Feed(LabelledSentence, o.sentiment_data, o.sentiment_batch_size, o.sentiment_classes),
            "paraphrase": Feed(LabelledPair, o.paraphrase_data, o.paraphrase_batch_size, PARAPHRASE_CLASSES),
            "similarity": Feed(ScoredPair, o.similarity_data, o.similarity_batch_size),
        }

    def dev_feeds(self) -> Mapping[str, Feed]:
        """The rows that choose the best step (section 5.2.2)."""
        o = self.options
        return {
            "sentiment": Feed(LabelledSentence, o.sentiment_dev, classes=o.sentiment_classes, metrics=("accuracy",)),
            "paraphrase": Feed(LabelledPair, o.paraphrase_dev, classes=PARAPHRASE_CLASSES, metrics=("accuracy",)),
            "similarity": Feed(ScoredPair, o.similarity_dev, metrics=("pearson",)),
        }

    def views(self, batch: Batch) -> Sequence[View]:
        """The texts of the tasks, one after another."""
        return [View(tokens) for name in self.feeds() if name in batch.tasks for tokens in batch.tasks[name].texts]

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """L_FT, term by term."""
        o, tasks = self.options, batch.tasks
        labels, alike, scores = (tasks[name].targets for name in self.feeds())
        assert labels is not None
        assert alike is not None
        assert scores is not None
        cosines = self._paraphrase(encoded[1:3])
        similarities = self._similarity(encoded[3:5])
        low, high = o.similarity_scale
        h = o.similarity_hinge
        return {
            "sentiment": o.sentiment_weight * cross_entropy(self.sentiment(encoded[0]), labels),
            "paraphrase": o.paraphrase_weight * cosine_embedding(cosines, alike == 1, o.paraphrase_hinge),
            "similarity": o.similarity_weight * mse_loss(similarities, h + (1 - h) * (scores - low) / (high - low)),
        }

    def predict(self, name: str, encoded: Sequence[Tensor]) -> Tensor:
        """[N]: the likeliest class; whether the cosine is past the middle of [h, 1]; the score."""
        o = self.options
        if name == "sentiment":
            classes: Tensor = self.sentiment(encoded[0]).argmax(1)
            return classes
        if name == "paraphrase":
            return (self._paraphrase(encoded) >= (1 + o.paraphrase_hinge) / 2).long()
        low, high = o.similarity_scale
        h = o.similarity_hinge
        return low + (high - low) * (self._similarity(encoded) - h) / (1 - h)

    def _paraphrase(self, encoded: Sequence[Tensor]) -> Tensor:
        """[N, d] of both sentences -> [N]."""
        first, second = (self.paraphrase(vectors) for vectors in encoded)
        return hinged_cosine(first, second, self.options.paraphrase_hinge)

    def _similarity(self, encoded: Sequence[Tensor]) -> Tensor:
        """[N, d] of both sentences -> [N]."""
        first, second = (self.similarity(vectors) for vectors in encoded)
        return hinged_cosine(first, second, self.options.similarity_hinge)

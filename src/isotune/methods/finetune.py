"""Fine-tuning on one task, as on GLUE.

The sources are Devlin et al. (2019, section 4.1), small-BERT (section 5.3) and self-guided (A.4).

The [CLS] vector of the last layer passes dropout and a linear layer, which give a class, or a score
if there are no classes. The two texts of a pair are one sequence, [CLS] a [SEP] b [SEP], and differ
by their token types. Every weight is trained.

The linear layer reads the [CLS] vector itself, as in BERT's text ("the only new parameters" are
those of this layer). BERT's released code, which the papers' numbers are of, puts the pretrained
pooler between the two: with the option `heads` and the encoder's pooling "pooler", this method does
so too.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from isotune.data.rows import LabelledPair, LabelledSentence, Row, ScoredPair, text_fields
from isotune.data.tokens import Tokenized
from isotune.encoder.classifier_head import ClassifierHead, HeadSettings, Kind
from isotune.encoder.encoder import Encoder
from isotune.encoder.pooling import Pooling
from isotune.errors import InputError
from isotune.methods.method import ROWS, Batch, Method, ScoredFeed, Split, View
from isotune.methods.options import FinetunePairOptions, FinetuneSentenceOptions
from isotune.methods.projection import started_as_bert


class FinetuneSentence(Method):
    """A class for every sentence."""

    rows: type[Row] = LabelledSentence
    # The layer reads the vector of [CLS], and not the sentence vector.
    has_widths = False
    options: FinetuneSentenceOptions | FinetunePairOptions

    def __init__(
        self, options: FinetuneSentenceOptions | FinetunePairOptions, encoder: Encoder
    ) -> None:
        super().__init__(options, encoder)
        self.classes = options.classes
        self.dropout = nn.Dropout(options.dropout)
        self._rows_of_class: Counter[str] = Counter()
        dimension = encoder.dimension if options.heads else encoder.backbone.dimension
        self.linear = started_as_bert(nn.Linear(dimension, len(self.classes) or 1))

    def scored(self, split: Split) -> Mapping[str, ScoredFeed]:
        """The dev data; or its first part to choose the step, and the rest as test rows.

        Raises:
            InputError: there is no dev data, and no `test_share` by which the run divides its rows.
        """
        options = self.options
        if not options.dev_data and options.test_share is None:
            raise InputError(
                "dev_data: no rows are given that choose the best step; give a source of rows like "
                "those of the data, or test_share 0.2: the run then sets rows apart by itself"
            )
        parts = {"dev": (0.0, options.dev_share), "test": (options.dev_share, 1.0)}
        part = parts[split]
        if part == (1.0, 1.0):
            return {}
        metrics: dict[str, str] = {metric: metric for metric in options.metrics}
        feed = ScoredFeed(self.rows, options.dev_data, metrics, self.classes, part)
        return {ROWS: feed}

    def prepare(
        self, rows: Iterable[Row], cache: Path | None, say: Callable[[str], None]
    ) -> Iterator[Row]:
        """The rows as they are. Their labels are counted, for the weights of the classes."""
        for row in rows:
            self._rows_of_class[str(row[-1])] += 1
            yield row

    def views(self, batch: Batch) -> Sequence[View]:
        """The sequences, each represented by its first token, or by the heads' output of it."""
        (sequences,) = batch.texts
        return [View(sequences, pooling=Pooling("cls"), heads=self.options.heads)]

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """The cross entropy of the classes, or the mean squared error of the scores."""
        outputs = self._outputs(encoded)
        assert batch.targets is not None
        if self.classes:
            weights = self._class_weights()
            if weights is not None:
                weights = weights.to(outputs)
            return {"cross_entropy": cross_entropy(outputs, batch.targets, weights)}
        return {"squared_error": mse_loss(outputs.squeeze(1), batch.targets)}

    def predict(self, name: str, encoded: Sequence[Tensor]) -> Tensor:
        """Class numbers or scores [N]."""
        outputs = self._outputs(encoded)
        return outputs.argmax(1) if self.classes else outputs.squeeze(1)

    def classifiers(self, max_length: int) -> Mapping[str, ClassifierHead]:
        """The linear layer, which reads the [CLS] vector, or the heads' output of that vector."""
        kind: Kind = "single" if self.classes else "score"
        settings = HeadSettings(
            kind=kind,
            labels=self.classes,
            pooling="cls",
            heads=self.options.heads,
            pairs=len(text_fields(self.rows)) == 2,
            max_length=max_length,
        )
        return {ROWS: ClassifierHead.of_layer(self.linear, settings)}

    def _class_weights(self) -> Tensor | None:
        """How much a row of each class weighs, [C]: scikit-learn's balanced weights, or None."""
        if self.options.class_weights is None:
            return None
        counts = torch.tensor([self._rows_of_class[label] for label in self.classes])
        return counts.sum() / (len(counts) * counts.clamp(min=1))

    def _outputs(self, encoded: Sequence[Tensor]) -> Tensor:
        """The outputs of the linear layer, [N, classes or 1]."""
        return self.linear(self.dropout(encoded[0]))


class FinetunePair(FinetuneSentence):
    """A class or a score for every pair."""

    def __init__(self, options: FinetunePairOptions, encoder: Encoder) -> None:
        super().__init__(options, encoder)
        self.rows = LabelledPair if options.classes else ScoredPair

    def tokenize(
        self, encoder: Encoder, columns: Sequence[list[str]], max_length: int
    ) -> Tokenized:
        """Both texts of a pair as one sequence."""
        first, second = columns
        ids, first_lengths = encoder.tokenize_pairs(first, second, max_length)
        return Tokenized([ids], first_lengths)

"""Fine-tuning on one task, as on GLUE (Devlin et al., 2019, section 4.1; small-BERT, section 5.3; self-guided, A.4).

The last layer's [CLS] vector, dropout and a linear layer make a class, or a score if there are no classes; the two
texts of a pair are one sequence, [CLS] a [SEP] b [SEP], told apart by their token types. Every weight is trained.

The linear layer reads the [CLS] vector itself, as BERT's text has it ("the only new parameters" are that layer's). Its
released code puts the pre-trained pooler between the two, which encoders here do not have: contrastive learning tunes
the vectors before it, and starting and tuned encoder are to be compared on the same footing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from isotune.data.rows import LabelledPair, LabelledSentence, Row, ScoredPair
from isotune.encoder.encoder import Encoder
from isotune.encoder.pooling import Pooling
from isotune.methods.method import Batch, Feed, Method, View
from isotune.methods.options.finetune import FinetunePairOptions, FinetuneSentenceOptions
from isotune.methods.projection import started_as_bert


class FinetuneSentence(Method):
    """A class for every sentence."""

    rows: type[Row] = LabelledSentence

    def __init__(self, options: FinetuneSentenceOptions | FinetunePairOptions, encoder: Encoder) -> None:
        super().__init__()
        self.classes = options.classes
        self.metrics = options.metrics
        self.dev_data = options.dev_data
        self.dropout = nn.Dropout(options.dropout)
        self.linear = started_as_bert(nn.Linear(encoder.backbone.dimension, len(self.classes) or 1))

    def dev_feeds(self) -> Mapping[str, Feed]:
        """The dev data; the mean of the metrics chooses the best step."""
        return {"": Feed(self.rows, self.dev_data, classes=self.classes, metrics=self.metrics)}

    def views(self, batch: Batch) -> Sequence[View]:
        """The sequences, by their first token."""
        (sequences,) = batch.texts
        return [View(sequences, pooling=Pooling("cls"), heads=False)]

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """Cross entropy of the classes, or the mean squared error of the scores."""
        outputs = self._outputs(encoded)
        assert batch.targets is not None
        if self.classes:
            return {"cross_entropy": cross_entropy(outputs, batch.targets)}
        return {"squared_error": mse_loss(outputs.squeeze(1), batch.targets)}

    def predict(self, name: str, encoded: Sequence[Tensor]) -> Tensor:
        """[N] class numbers or scores."""
        outputs = self._outputs(encoded)
        return outputs.argmax(1) if self.classes else outputs.squeeze(1)

    def _outputs(self, encoded: Sequence[Tensor]) -> Tensor:
        (vectors,) = encoded
        outputs: Tensor = self.linear(self.dropout(vectors))  # [N, classes or 1]
        return outputs


class FinetunePair(FinetuneSentence):
    """A class or a score for every pair."""

    joint = True

    def __init__(self, options: FinetunePairOptions, encoder: Encoder) -> None:
        super().__init__(options, encoder)
        self.rows = LabelledPair if options.classes else ScoredPair

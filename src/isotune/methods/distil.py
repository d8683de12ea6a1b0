"""Distillation: the encoder learns what similarities frozen teachers find between sentences.

Each sentence ranks the others of its batch. The encoder's ranking shall be that of the teachers,
whose cosines are averaged, as DistillCSE averages the logits of several teachers (Xu et al., 2023).
Only similarities are compared, so a teacher may have another size, another tokenizer, weights of
tokens, or layers on top, and the encoder needs none of them: it is pooled from its last layer, and
loses its weights of tokens and its heads, except one that scales vectors to length 1. DistillCSE
has a contrastive loss and a queue of sentences beside, and shuffles the logits of neighbouring
ranks; none of this is here.

With `match = "vectors"`, the encoder learns the vectors of one teacher, as LEAF does (2025, arXiv
2509.12539): a linear layer gives them the teacher's size. Then the encoder can search among
documents that the teacher has encoded.
"""

from collections.abc import Sequence
from copy import deepcopy

from torch import Tensor

from isotune.data.rows import Sentence
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense, Normalize
from isotune.losses import cosine_distance, ranking_divergence
from isotune.methods.linear_map import layer_to, load_only
from isotune.methods.method import Additions, Batch, Method
from isotune.methods.options import DistilOptions


class Distil(Method):
    """Each sentence's similarities with the others of the batch, or its vector, by teachers."""

    rows = Sentence
    # The teachers have tokenizers of their own.
    needs_text = True
    separates_copies = False
    options: DistilOptions
    fixed = "clone"

    def __init__(self, options: DistilOptions, encoder: Encoder) -> None:
        """Loads the teachers, or clones the encoder.

        Raises:
            InputError: a teacher can't be loaded, or not one teacher alone gives the vectors.
        """
        super().__init__(options, encoder)
        self.clone: Encoder | None = None
        if options.match == "vectors":
            self._match_vectors(encoder)
            return
        if options.teachers:
            self.teachers = [Encoder.load(name) for name in options.teachers]
        else:
            self.clone = deepcopy(encoder).requires_grad_(False)
            self.teachers = [self.clone]
        self.adds = Additions(pooling=encoder.pooling.on_last_layer(), drops_heads=True)

    def _match_vectors(self, encoder: Encoder) -> None:
        """Loads the only teacher, and adds a layer of its size unless the encoder ends in one."""
        teacher = load_only(self.options.teachers)
        # The encoder will ask, where the teacher has encoded the documents.
        self.teachers = [teacher.prompted("query")]
        self.space_of = teacher.fingerprint()
        last = [type(head) for head in encoder.heads][-2:]
        ends_in_layer = last == [Dense, Normalize] and encoder.dimension == teacher.dimension
        if not ends_in_layer:
            self.adds = layer_to(encoder, teacher)

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """The divergence or the distance from the teachers, whose vectors are the targets."""
        (students,) = encoded
        assert batch.targets is not None, "the teachers have encoded the rows"
        if self.options.match == "vectors":
            return {"distance": cosine_distance(students, batch.targets)}
        return {"divergence": ranking_divergence(students, batch.targets, self.options.temperature)}

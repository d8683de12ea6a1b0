"""From the views of a step to their vectors, and from the gradient of the vectors to the weights.

1. Views with the same backbone, pooling and heads form a group. The sentences of a group are joined
   in one row.
2. The row is cut into shares, up to one for each worker, and with a gradient cache a share into
   passes.
3. A pass encodes some of the sentences: backbone, then pooling. The vectors of all passes are
   gathered.
4. The heads get the vectors of the whole group at once: some heads look at the whole batch (a flow
   at its first one).
5. The loss leaves a gradient at the gathered vectors. Each pass takes its part back to the weights.

A contrastive loss needs the vectors of the whole batch. Activations are needed for a few sentences
at a time only. docs/architecture.md ("A step is a list of passes") tells the order. The gradient is
that of the loss of all vectors, whatever the method does with them.

With a gradient cache (Gao et al., 2021, "Scaling Deep Contrastive Learning Batch Size under Memory
Limited Setup"), a worker makes several passes, one after another. The first time, a pass keeps no
activations. For its gradient, the pass is made again, with activations. So memory does not grow
with the batch, at the price of one more forward pass.

Each sentence of each view has a seed of its own (`data/draws.py`), for dropout and augmentation. So
the vectors do not depend on the cut, and any number of workers makes the same step. On a GPU,
dropout is torch's: each pass has a seed, and a pass that is made again draws the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from isotune.data.draws import split_seeds
from isotune.data.packed import Packed, concatenate
from isotune.encoder.backbone import Backbone
from isotune.encoder.encoder import Encoder
from isotune.encoder.pooling import TokenStates
from isotune.engine.adversarial import Attack
from isotune.engine.workers import Workers
from isotune.kernels.gpu import seed_gpu
from isotune.methods.method import VectorView, View
from isotune.views.augmentation import PerView

Adversary = Callable[[Sequence[Tensor]], Tensor]
"""The loss that adversarial views increase, from the vectors of all other views."""

Gradients = list[Tensor | None]
"""The gradient of each trained parameter, None for 0; that of word embeddings may be sparse."""


def chunk_that_fits(
    encoder: Encoder, views: Sequence[View], workers: Workers, free: int
) -> int | None:
    """How many rows to encode at a time (`chunk_size`) in `free` bytes; None for all rows.

    What training needs for the weights comes first (`bytes_for_weights`). Of the rest a third is
    for what is kept for the backward pass: the allocator keeps freed blocks, and evaluations take
    memory too.
    """
    backbone = encoder.backbone
    tokens = sum(len(view.tokens.ids) for view in views)
    width = backbone.model.config.hidden_size
    activation_bytes = 4 * backbone.kind.kept * width * _keeping_blocks(backbone) * tokens
    left = free - bytes_for_weights(encoder)
    # The part of all tokens that this process may hold at once.
    fraction = left / 3 / activation_bytes
    if fraction * workers.world_size >= 1:
        return None
    rows = max(len(view.tokens) for view in views)
    return max(1, int(fraction * rows / workers.shard_count(tokens)))


def bytes_for_weights(encoder: Encoder) -> int:
    """What training needs for the gradient and AdamW's two averages of the trained weights.

    All are float32.
    """
    return 3 * 4 * trained_weights(encoder)


def trained_weights(encoder: Encoder) -> int:
    """The number of the backbone's trained weights."""
    weights = encoder.backbone.parameters()
    return sum(weight.numel() for weight in weights if weight.requires_grad)


def _keeping_blocks(backbone: Backbone) -> int:
    """How many blocks keep something for the gradient: the lowest trained one and all above it."""
    blocks = backbone.blocks
    frozen = 0
    for block in blocks:
        if any(weight.requires_grad for weight in block.parameters()):
            break
        frozen += 1
    # ALBERT calls its one block several times.
    return max(1, backbone.layers * (len(blocks) - frozen) // len(blocks))


class StepEncoding:
    """Encodes the views of a step, and takes the gradient of the loss back to the weights."""

    def __init__(
        self, encoder: Encoder, workers: Workers, seed: int = 0, chunk_size: int | None = None
    ) -> None:
        """Keeps the arguments.

        `chunk_size` asks for the gradient cache: it is roughly the number of sentences of a view in
        one pass. None makes one pass for each worker.
        """
        self._encoder = encoder
        self._workers = workers
        self._seed = seed
        self._chunk_size = chunk_size
        self._pass_count = 0
        self.groups: list[EncodedGroup] = []
        """What goes backward, after `encode`."""

    def encode(
        self, views: Sequence[View | VectorView], adversary: Adversary | None = None
    ) -> list[Tensor]:
        """The vectors of each view, [N, d] in float32 (float64 for a float64 encoder); called once.

        `adversary` is needed for adversarial views.
        """
        # Each view is another object with other seeds: a method may ask for one view twice.
        views = [self._seeded(view, number) for number, view in enumerate(views)]
        token_views = [view for view in views if isinstance(view, View)]
        attack = Attack.on(token_views, self._encoder)
        if adversary is None or not attack.noises:
            vectors = self._vectors(views)
        else:
            plain = self._vectors(attack.plain_round())
            gradients = self._gradients_at(list(attack.noises.values()), adversary(plain))
            noisy = self._vectors(attack.noisy_round(gradients))
            vectors = _in_turn(token_views, plain, noisy)
        # All processes draw the same after the vectors.
        seed_gpu(self._encoder.device, self._seed)
        return vectors

    def backward(self) -> None:
        """Takes the gradients that the loss has left at the vectors back to the weights.

        Autocast, and the dropout of the model, have to be as they were in `encode`.
        """
        backpropagate(self.groups, self.parameters(), self._workers)

    def parameters(self) -> list[nn.Parameter]:
        """The weights that are trained behind the vectors."""
        return [weight for weight in self._encoder.backbone.parameters() if weight.requires_grad]

    def _seeded(self, view: View | VectorView, number: int) -> View | VectorView:
        """The view with a seed for each sentence; the view is number `number` of the step."""
        if isinstance(view, VectorView):
            return replace(view)
        view_seed = split_seeds(torch.tensor([self._seed]), number)  # [1]
        seeds = split_seeds(view_seed, view.tokens.order)  # [N]
        return replace(view, tokens=replace(view.tokens, seeds=view.tokens.on_device(seeds)))

    def _vectors(self, views: Sequence[View | VectorView]) -> list[Tensor]:
        """The vectors of each view."""
        encoded: dict[View | VectorView, Tensor] = {}
        groups: dict[tuple[object, ...], list[View]] = {}
        for view in views:
            if isinstance(view, VectorView):
                (encoded[view],) = self._through_heads([view.vectors])
            else:
                kind = (view.backbone, view.pooling, view.heads)
                groups.setdefault(kind, []).append(view)
        for group in groups.values():
            vectors = self._encode_group(group)
            if _wants_heads(group[0]):
                vectors = self._through_heads(vectors)
            encoded.update(zip(group, vectors, strict=True))
        return [_at_least_float32(encoded[view]) for view in views]

    def _through_heads(self, vectors: Sequence[Tensor]) -> Sequence[Tensor]:
        """What the heads make of the pooled vectors [N, d] of some views, all at once."""
        after: Tensor = self._encoder.heads(torch.cat(list(vectors)))
        return torch.split(after, [len(of_view) for of_view in vectors])

    def _encode_group(self, views: Sequence[View]) -> Sequence[Tensor]:
        """The pooled vectors [N, d] of each view of a group; the states [M, d] of `TokenStates`."""
        workers = self._workers
        sizes = [len(view.tokens) for view in views]
        row = _joined(views)
        parts = row.tokens.cut(workers.world_size * workers.shard_count(len(row.tokens.ids)))
        shares = [self._passes(row, part, max(sizes)) for part in workers.local_shards(parts)]
        vectors = self._forward(shares)
        if vectors is None:
            vectors = self._no_vectors(row, max(sizes))
        part_counts = [_count_vectors(_part(row, part)) for part in parts]
        counts = [
            sum(workers.local_shards(part_counts, rank)) for rank in range(workers.world_size)
        ]
        representations = workers.all_gather(vectors, counts)
        if torch.is_grad_enabled() and row.backbone is None and self.parameters():
            start = sum(counts[: workers.rank])
            self.groups.append(EncodedGroup(representations.requires_grad_(), shares, start))
        if isinstance(row.pooling, TokenStates):
            return (representations,)
        return torch.split(row.tokens.restore(representations), sizes)

    def _passes(self, row: View, part: Packed, sentences: int) -> list[Pass]:
        """The passes of a worker whose share is this part of a row.

        `sentences` is the number of sentences of the largest view in the row.
        """
        chunks = [part]
        if self._chunk_size is not None:
            # A pass has about as many tokens as `chunk_size` sentences have in each of the views.
            passes_of_row = math.ceil(sentences / self._chunk_size)
            passes_of_part = math.ceil(len(part.ids) * passes_of_row / len(row.tokens.ids))
            chunks = part.cut(passes_of_part)
        passes = []
        for chunk in filter(len, chunks):
            self._pass_count += 1
            encode = partial(self._encode, _part(row, chunk), self._pass_count)
            passes.append(Pass(encode, keeps_activations=self._chunk_size is None))
        return passes

    def _forward(self, shares: Sequence[Sequence[Pass]]) -> Tensor | None:
        """The vectors of all passes, one pass after another; None if there is no pass.

        A thread makes the passes of a share.
        """
        vectors = []
        for of_share in self._workers.map(_forward_share, shares):
            vectors.extend(of_share)
        return torch.cat(vectors) if vectors else None

    def _no_vectors(self, row: View, sentences: int) -> Tensor:
        """No vectors [0, d]: a process without a sentence makes passes to know their shape."""
        return _forward_share(self._passes(row, row.tokens, sentences))[0][:0]

    def _encode(self, part: View, number: int) -> Tensor:
        """The vectors of a part of a row, in its order. A GPU draws from the number of the pass."""
        backbone = part.backbone or self._encoder.backbone
        if backbone.training:
            seed_gpu(self._encoder.device, self._seed, self._workers.rank, number)
        with torch.no_grad() if part.backbone else nullcontext():
            vectors = self._encoder.pool(
                part.tokens, part.augmentation, part.pooling, part.backbone
            )
        if isinstance(part.pooling, TokenStates):
            return vectors
        # `pool` has restored the caller's order; the passes are joined in the order of the row.
        packed_order = part.tokens.order.argsort().argsort()
        return vectors[part.tokens.on_device(packed_order)]

    def _gradients_at(self, noises: Sequence[Tensor], loss: Tensor) -> list[Tensor]:
        """The gradients, at noises behind the vectors so far, of a loss of these vectors."""
        all_representations = [group.representations for group in self.groups]
        loss.backward(inputs=all_representations, retain_graph=True)
        backpropagate(self.groups, noises, self._workers, retain_graph=True)
        # The gradient of the step's loss is to come.
        for representations in all_representations:
            representations.grad = None
        gradients = []
        for noise in noises:
            gradient = torch.zeros_like(noise) if noise.grad is None else noise.grad
            gradients.append(self._workers.all_reduce_sum(gradient))
        return gradients


class Pass:
    """A forward pass of a worker, and its backward pass."""

    def __init__(self, encode: Callable[[], Tensor], keeps_activations: bool) -> None:
        """Takes what encodes the sentences. Without activations, `backward` encodes them again."""
        self.count = 0
        """The number of vectors, after `forward`."""
        self._encode = encode
        self._keeps_activations = keeps_activations
        self._output: Tensor | None = None

    def forward(self) -> Tensor:
        """The vectors [n, d], without a graph."""
        with torch.set_grad_enabled(self._keeps_activations and torch.is_grad_enabled()):
            output = self._encode()
        self.count = len(output)
        if output.requires_grad:
            self._output = output
        return output.detach()

    def backward(
        self, gradient: Tensor, parameters: Sequence[Tensor], retain_graph: bool
    ) -> Gradients:
        """The gradients of the parameters, from the gradient of the vectors.

        The activations are let go unless `retain_graph`.
        """
        output = self._output
        if output is None:
            output = self._encode()
        if not retain_graph:
            self._output = None
        # A backward pass has no autocast.
        with torch.autocast(output.device.type, enabled=False):
            return list(
                torch.autograd.grad(
                    output, parameters, gradient, retain_graph=retain_graph, allow_unused=True
                )
            )


class EncodedGroup(NamedTuple):
    """The vectors of views that were encoded together, and this process's passes among them."""

    representations: Tensor
    """[N, d], the vectors of all workers' passes, one pass after another."""

    shares: Sequence[Sequence[Pass]]
    """The passes of each thread."""

    start: int
    """The number of this process's first vector among them."""

    def gradients(self, gradient_of_all: Tensor) -> list[list[tuple[Pass, Tensor]]]:
        """The passes of each thread, with the gradients of their vectors."""
        start = self.start
        threads = []
        for share in self.shares:
            passes = []
            for current in share:
                end = start + current.count
                passes.append((current, gradient_of_all[start:end]))
                start = end
            threads.append(passes)
        return threads


def backpropagate(
    groups: Sequence[EncodedGroup],
    parameters: Sequence[Tensor],
    workers: Workers,
    retain_graph: bool = False,
) -> None:
    """Takes the gradients at the vectors backward, and adds this process's part to the parameters'.

    Autocast, and the dropout of the model, have to be as they were. `retain_graph` says that
    another call follows.
    """
    backward = partial(_backward_share, parameters=parameters, retain_graph=retain_graph)
    # Gradients are added in the order of the threads, whichever ends first.
    for gradients in workers.map(backward, _passes_of_threads(groups)):
        for parameter, gradient in zip(parameters, gradients, strict=True):
            _add_gradient(parameter, gradient)


def _passes_of_threads(groups: Sequence[EncodedGroup]) -> list[list[tuple[Pass, Tensor]]]:
    """The passes of each thread in all groups, with the gradients of their vectors."""
    threads: list[list[tuple[Pass, Tensor]]] = []
    for group in groups:
        if group.representations.grad is None:
            continue
        for number, passes in enumerate(group.gradients(group.representations.grad)):
            if number == len(threads):
                threads.append([])
            threads[number].extend(passes)
    return threads


def _forward_share(share: Sequence[Pass]) -> list[Tensor]:
    return [current.forward() for current in share]


def _backward_share(
    passes: list[tuple[Pass, Tensor]], parameters: Sequence[Tensor], retain_graph: bool
) -> Gradients:
    """The sum of the gradients of a thread's passes. The list of passes is empty afterwards.

    The longest sentences come first: later passes fit into the memory that they have freed.
    """
    total: Gradients = [None] * len(parameters)
    while passes:
        current, gradient = passes.pop()
        for number, of_pass in enumerate(current.backward(gradient, parameters, retain_graph)):
            before = total[number]
            if before is None:
                total[number] = of_pass
            elif of_pass is not None:
                total[number] = before.add_(of_pass)
    return total


def _add_gradient(parameter: Tensor, gradient: Tensor | None) -> None:
    if gradient is None:
        return
    if parameter.grad is not None:
        parameter.grad.add_(gradient)
    elif gradient.is_sparse:
        parameter.grad = gradient.to_dense()
    else:
        parameter.grad = gradient


def _joined(views: Sequence[View]) -> View:
    """The row of a group of views: all their sentences, each changed as its view says."""
    sizes = [len(view.tokens) for view in views]
    augmentation = PerView([view.augmentation for view in views], sizes)
    tokens = concatenate([view.tokens for view in views])
    return replace(views[0], tokens=tokens, augmentation=augmentation)


def _part(row: View, tokens: Packed) -> View:
    """The part of a row that has these sentences."""
    pooling = row.pooling
    if isinstance(pooling, TokenStates) and tokens is not row.tokens:
        places = pooling.places - row.tokens.places(tokens)[:1]
        pooling = TokenStates(places[(places >= 0) & (places < len(tokens.ids))])
    return replace(row, tokens=tokens, pooling=pooling)


def _count_vectors(part: View) -> int:
    """The number of vectors of a part of a row."""
    if isinstance(part.pooling, TokenStates):
        return len(part.pooling.places)
    return len(part.tokens)


def _wants_heads(view: View) -> bool:
    """Whether the encoder's heads follow the pooling of a view."""
    return view.heads and view.backbone is None and not isinstance(view.pooling, TokenStates)


def _at_least_float32(vectors: Tensor) -> Tensor:
    return vectors.to(torch.promote_types(vectors.dtype, torch.float32))


def _in_turn(
    views: Sequence[View], plain: Sequence[Tensor], noisy: Sequence[Tensor]
) -> list[Tensor]:
    """The vectors of all views in order, from those of plain and of adversarial views in order."""
    next_plain = iter(plain)
    next_noisy = iter(noisy)
    vectors = []
    for view in views:
        vectors.append(next(next_noisy if view.is_adversarial else next_plain))
    return vectors

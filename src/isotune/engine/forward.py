"""From the views of a step to their vectors.

1. Views with the same backbone, pooling and heads form a group. The sentences of a group are joined in one row.
2. The row is cut into shares, up to one for each worker, and with a gradient cache a share into passes (`passes.py`).
3. A pass encodes some of the sentences: backbone, then pooling. The vectors of all passes are gathered.
4. The heads get the vectors of the whole group at once: some heads look at the whole batch (a flow at its first one).

Each sentence of each view has a seed of its own, for dropout and augmentation. So the vectors do not depend on the cut,
and any number of workers makes the same step. On a GPU, dropout is torch's: each pass has a seed, and a pass that is
made again draws the same.

Views with adversarial noise (ConSERT, section 3.2) take a second round:

1. The plain views are encoded, those under attack with a noise of 0 on their embeddings.
2. A loss of the plain views' vectors is computed, and its gradient goes back to that noise, as to weights.
3. Scaled to one length for each token, the gradient is the noise of the adversarial view, which is then encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from isotune.data.draws import split_seeds
from isotune.data.packed import Packed, concatenate
from isotune.encoder.encoder import Encoder
from isotune.encoder.pooling import TokenStates
from isotune.engine.passes import Encoded, Pass, take_back
from isotune.engine.workers import Workers
from isotune.kernels.gpu import seed_gpu
from isotune.methods.method import VectorView, View
from isotune.views.adversarial import Adversarial, Noise
from isotune.views.augmentation import PerView

Adversary = Callable[[Sequence[Tensor]], Tensor]
"""The loss that adversarial views increase, from the vectors of all other views."""
KEPT = 24  # numbers that a block keeps of a token for its gradient, in widths of the model; 19 without dropout


def chunk_that_fits(
    encoder: Encoder, views: Sequence[View], workers: Workers, free: int
) -> int | None:
    """How many rows to encode at a time (`chunk_size`), so that a step fits into `free` bytes; None for all rows.

    The gradient and AdamW's two averages of the weights come first, in float32. Of the rest a third is for what is kept
    for the backward pass: the allocator keeps freed blocks, and evaluations take memory too.
    """
    weights = 4 * sum(weight.numel() for weight in encoder.backbone.parameters())
    tokens = sum(len(view.tokens.ids) for view in views)
    kept = 4 * KEPT * encoder.backbone.dimension * encoder.backbone.layers * tokens
    share = (free / 3 - weights) / kept  # of all tokens, that this process may hold at once
    chunk = int(share * max(len(view.tokens) for view in views) / workers.shares(tokens))
    return None if share * workers.processes >= 1 else max(1, chunk)


class StepEncoding:
    """Encodes the views of a step, and takes the gradient of the step's loss back to the weights."""

    def __init__(
        self, encoder: Encoder, workers: Workers, seed: int = 0, chunk_size: int | None = None
    ) -> None:
        """`chunk_size`, roughly the sentences of a view in one pass, asks for the gradient cache; None: one pass."""
        self._encoder, self._workers, self._seed, self._chunk_size = (
            encoder,
            workers,
            seed,
            chunk_size,
        )
        self._made = 0  # passes
        self.groups: list[Encoded] = []  # what goes backward, after `encode`

    def encode(
        self, views: Sequence[View | VectorView], adversary: Adversary | None = None
    ) -> list[Tensor]:
        """The vectors of each view, [N, d] in float32 (float64 for a float64 encoder); called once.

        `adversary` is needed for adversarial views.
        """
        # Each view is another object with other seeds: a method may ask for one view twice.
        views = [self._seeded(view, number) for number, view in enumerate(views)]
        of_tokens = [view for view in views if isinstance(view, View)]
        attacks = {
            view: view.augmentation
            for view in of_tokens
            if isinstance(view.augmentation, Adversarial)
        }
        encoded = (
            self._attacked(of_tokens, attacks, adversary)
            if adversary and attacks
            else self._vectors(views)
        )
        return [encoded[view] for view in views]

    def backward(self) -> None:
        """Takes the gradients that the loss has left at the vectors back to the weights, as `take_back` does."""
        take_back(self.groups, self.parameters(), self._workers)

    def parameters(self) -> list[nn.Parameter]:
        """The weights that are trained behind the vectors."""
        return [weight for weight in self._encoder.backbone.parameters() if weight.requires_grad]

    def _seeded(self, view: View | VectorView, number: int) -> View | VectorView:
        """The view with a seed for each sentence; the view is number `number` of the step."""
        if isinstance(view, VectorView):
            return replace(view)
        order = view.tokens.order  # [N]
        seeds = split_seeds(split_seeds(torch.tensor([self._seed]), number), order)
        return replace(view, tokens=replace(view.tokens, seeds=view.tokens.on_device(seeds)))

    def _vectors(self, views: Sequence[View | VectorView]) -> dict[View | VectorView, Tensor]:
        """The vectors of each view."""
        encoded: dict[View | VectorView, Tensor] = {}
        groups: dict[tuple[object, ...], list[View]] = {}
        for view in views:
            if isinstance(view, VectorView):
                (encoded[view],) = self._through_heads([view.vectors])
            else:
                groups.setdefault((view.backbone, view.pooling, view.heads), []).append(view)
        for group in groups.values():
            kind = group[0]
            vectors = self._pool(group)
            if kind.heads and not kind.backbone and not isinstance(kind.pooling, TokenStates):
                vectors = self._through_heads(vectors)
            encoded |= zip(group, vectors, strict=True)
        return {
            view: encoded[view].to(torch.promote_types(encoded[view].dtype, torch.float32))
            for view in views
        }

    def _through_heads(self, vectors: Sequence[Tensor]) -> Sequence[Tensor]:
        """What the heads make of the pooled vectors [N, d] of some views, all at once."""
        after: Tensor = self._encoder.heads(torch.cat(list(vectors)))
        return torch.split(after, [len(of_view) for of_view in vectors])

    def _pool(self, views: Sequence[View]) -> Sequence[Tensor]:
        """Pooled states of each view of a group, [N, d] in the caller's order, or [M, d] of single tokens."""
        workers, sizes = self._workers, [len(view.tokens) for view in views]
        augmentation = PerView([view.augmentation for view in views], sizes)
        row = replace(
            views[0], tokens=concatenate([view.tokens for view in views]), augmentation=augmentation
        )
        parts = row.tokens.cut(workers.processes * workers.shares(len(row.tokens.ids)))
        shares = [self._passes(row, part, max(sizes)) for part in workers.own(parts)]
        outputs = [
            output
            for share in workers.run([partial(_forward, share) for share in shares])
            for output in share
        ]
        if not outputs:  # fewer sentences than processes: this process makes a pass to know the shape of the vectors
            outputs = [_forward(self._passes(row, row.tokens, max(sizes)))[0][:0]]
        poolings = [_part(row, part).pooling for part in parts]
        numbers = [
            len(x.places if isinstance(x, TokenStates) else y)
            for x, y in zip(poolings, parts, strict=True)
        ]
        counts = [sum(workers.own(numbers, rank)) for rank in range(workers.processes)]
        leaf = workers.gather(torch.cat(outputs), counts)
        if torch.is_grad_enabled() and not row.backbone and self.parameters():
            self.groups.append(Encoded(leaf.requires_grad_(), shares, sum(counts[: workers.rank])))
        if isinstance(row.pooling, TokenStates):
            return (leaf,)
        return torch.split(row.tokens.restore(leaf), sizes)

    def _passes(self, row: View, part: Packed, sentences: int) -> list[Pass]:
        """The passes of a worker, whose share is this part of a row of views with up to so many sentences each."""
        chunks, kept = [part], self._chunk_size is None
        if self._chunk_size is not None:
            # A pass has about as many tokens as `chunk_size` sentences have in each of the views.
            passes_of_row = -(-sentences // self._chunk_size)
            chunks = part.cut(-(-len(part.ids) * passes_of_row // len(row.tokens.ids)))
        passes = []
        for chunk in filter(len, chunks):
            self._made += 1
            passes.append(Pass(partial(self._encode, _part(row, chunk), self._made), kept))
        return passes

    def _encode(self, part: View, number: int) -> Tensor:
        """The vectors of a part of a row, in its order, by pass `number` of this process, from which a GPU draws."""
        if (part.backbone or self._encoder.backbone).training:
            seed_gpu(self._encoder.device, self._seed, self._workers.rank, number)
        with torch.no_grad() if part.backbone else nullcontext():
            vectors = self._encoder.pool(
                part.tokens, part.augmentation, part.pooling, part.backbone
            )
        if isinstance(part.pooling, TokenStates):
            return vectors
        of_row = part.tokens.order.argsort().argsort()  # from the caller's order
        return vectors[part.tokens.on_device(of_row)]

    def _attacked(
        self, views: Sequence[View], attacks: Mapping[View, Adversarial], adversary: Adversary
    ) -> dict[View | VectorView, Tensor]:
        """The vectors of each view, some of which are adversarial."""
        noises = {
            view: self._encoder.backbone.no_noise(len(view.tokens.ids)).requires_grad_()
            for view in dict.fromkeys(views[attack.of] for attack in attacks.values())
        }
        plain = {view: view for view in views if view not in attacks}
        for view, noise in noises.items():
            plain[view] = replace(view, augmentation=Noise(view.tokens, noise, view.augmentation))
        encoded = self._vectors(list(plain.values()))
        leaves = [group.leaf for group in self.groups]
        adversary(list(encoded.values())).backward(inputs=leaves, retain_graph=True)
        take_back(self.groups, list(noises.values()), self._workers, again=True)
        for leaf in leaves:
            leaf.grad = None  # that of the step's loss is to come
        # For each token, the direction of its embedding in which the loss grows fastest; its length is 1.
        directions = {
            view: normalize(
                self._workers.add(torch.zeros_like(x) if x.grad is None else x.grad),
                dim=-1,
                eps=1e-10,
            )
            for view, x in noises.items()
        }
        noisy = []
        for view, attack in attacks.items():
            of = views[attack.of]
            noisy.append(replace(view, augmentation=Noise(of.tokens, attack.norm * directions[of])))
        more = self._vectors(noisy)
        return dict(zip([*plain, *attacks], [*encoded.values(), *more.values()], strict=True))


def _part(row: View, tokens: Packed) -> View:
    """The part of a row that has these sentences."""
    pooling = row.pooling
    if isinstance(pooling, TokenStates) and tokens is not row.tokens:
        places = pooling.places - row.tokens.places(tokens)[:1]
        pooling = TokenStates(places[(places >= 0) & (places < len(tokens.ids))])
    return replace(row, tokens=tokens, pooling=pooling)


def _forward(share: Sequence[Pass]) -> list[Tensor]:
    return [made.forward() for made in share]

"""From the views that a method asks for to their vectors.

Views of one kind go through the model together: in one forward pass, or with a gradient cache in one for each chunk of
their sentences. Heads get the vectors of all at once: some look at the whole batch (a flow at its first), and what they
keep for the backward pass is a few numbers for each of a vector's.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import torch
from torch import Generator, Tensor

from isotune.data.packed import Packed, concatenate
from isotune.encoder.encoder import Encoder
from isotune.encoder.pooling import TokenStates
from isotune.methods.method import View
from isotune.training.gradient_cache import GradientCache, Pass
from isotune.views.adversarial import Adversarial, Noise, Watched, fast_gradient_values
from isotune.views.augmentation import PerView

Noises = Callable[[int], Mapping[int, Noise]]
"""From the number of a chunk to the noise of its adversarial views, by the views' numbers."""


def encode_views(
    encoder: Encoder,
    views: Sequence[View],
    generator: Generator,
    adversary: Callable[[Sequence[Tensor]], Tensor] | None = None,
    cache: GradientCache | None = None,
) -> list[Tensor]:
    """What the views encode to, [N, d] each, in float32 at least.

    Args:
        encoder: the encoder that is trained.
        views: what to encode.
        generator: where the augmentations' random numbers come from.
        adversary: the loss that adversarial views climb, from the vectors of the others.
        cache: cuts the views into chunks; its `backward` has to follow that of the loss.
    """
    passes = _Passes(encoder, views, generator, cache)
    numbered = dict(enumerate(views))
    attacks = {i: view.augmentation for i, view in numbered.items() if isinstance(view.augmentation, Adversarial)}
    if not attacks or adversary is None:
        return list(passes.encode(numbered).values())
    # The clean views first; the gradient of their loss makes the noise of the others.
    watched = {attack.of: Watched(views[attack.of].augmentation) for attack in attacks.values()}
    clean = {i: view for i, view in numbered.items() if i not in attacks}
    clean |= {i: replace(views[i], augmentation=augmentation) for i, augmentation in watched.items()}
    encoded = passes.encode(clean)
    noises = passes.noises(adversary(list(encoded.values())), attacks, watched)
    encoded |= passes.encode({i: views[i] for i in attacks}, noises)
    return [encoded[i] for i in numbered]


class _Passes:
    """The forward passes of a step. Views go by their numbers."""

    def __init__(
        self, encoder: Encoder, views: Sequence[View], generator: Generator, cache: GradientCache | None
    ) -> None:
        self.encoder = encoder
        self.generator = generator
        self.chunks = cache.chunks(views) if cache else 1
        trained = any(parameter.requires_grad for parameter in encoder.backbone.parameters())
        self.cache = cache if self.chunks > 1 and trained else None
        self.made: dict[tuple[int, int], Pass] = {}  # by view and chunk

    def encode(self, views: Mapping[int, View], noises: Noises = lambda chunk: {}) -> dict[int, Tensor]:
        """The views' vectors."""
        kinds: dict[Hashable, dict[int, View]] = {}
        for i, view in views.items():
            by_itself = None if view.vectors is None else i
            kinds.setdefault((view.backbone, view.pooling, view.heads, by_itself), {})[i] = view
        encoded: dict[int, Tensor] = {}
        for members in kinds.values():
            kind = _first(members)
            vectors = self._pooled(members, noises) if kind.vectors is None else [kind.vectors]
            if self.encoder.heads and kind.heads and not kind.backbone and not isinstance(kind.pooling, TokenStates):
                vectors = self.encoder.heads(torch.cat(list(vectors))).split([len(own) for own in vectors])
            encoded |= zip(members, vectors, strict=True)
        return {i: encoded[i].to(torch.promote_types(encoded[i].dtype, torch.float32)) for i in views}

    def noises(self, loss: Tensor, attacks: Mapping[int, Adversarial], watched: Mapping[int, Watched]) -> Noises:
        """The noise in whose direction a loss of the views encoded so far grows fastest."""
        sources = {place: one for place, one in self.made.items() if place[0] in watched}
        once = list(dict.fromkeys(sources.values()))  # a pass may have encoded several of the views
        found = torch.autograd.grad(loss, [one.output for one in once], retain_graph=True)
        gradients = dict(zip(once, found, strict=True))

        def of_chunk(chunk: int) -> dict[int, Noise]:
            noises: dict[int, Noise] = {}
            for one in once:
                mine = {i: attack for i, attack in attacks.items() if sources.get((attack.of, chunk)) is one}
                if mine:
                    with torch.enable_grad():
                        product = (one.again() * gradients[one]).sum()  # has the loss's gradient
                    targets, norms = zip(*((watched[attack.of], attack.norm) for attack in mine.values()), strict=True)
                    noises |= zip(mine, fast_gradient_values(product, targets, norms), strict=True)
            return noises

        return of_chunk

    def _pooled(self, views: Mapping[int, View], noises: Noises) -> Sequence[Tensor]:
        """Pooled states of views of one kind: [N, d] each in the caller's order, or [M, d] of tokens."""
        run = self.cache.run if self.cache and not _first(views).backbone else Pass
        cut = {i: _cut(view, self.chunks) for i, view in views.items()}
        pooled: dict[int, list[Tensor]] = {i: [] for i in views}
        for chunk in range(self.chunks):
            if parts := {i: chunks[chunk] for i, chunks in cut.items() if chunk in chunks}:
                one = run(partial(_pool, self.encoder, parts, self.generator, partial(noises, chunk)))
                rows = one.output.split([_rows(part) for part in parts.values()])
                for i, own in zip(parts, rows, strict=True):
                    pooled[i].append(own)
                    self.made[i, chunk] = one
        joined = [torch.cat(parts) for parts in pooled.values()]
        if self.chunks == 1 or isinstance(_first(views).pooling, TokenStates):
            return joined
        return [_tokens(view).restore(own) for view, own in zip(views.values(), joined, strict=True)]


def _pool(
    encoder: Encoder, views: Mapping[int, View], generator: Generator, noises: Callable[[], Mapping[int, Noise]]
) -> Tensor:
    """Pooled states of views of one kind, one view after another: the one forward pass."""
    kind, noise = _first(views), noises()
    batches = [_tokens(view) for view in views.values()]
    tokens = concatenate(batches)
    augmentation = PerView(
        [noise.get(i, view.augmentation) for i, view in views.items()], [len(batch) for batch in batches]
    )
    backbone, pooling = kind.backbone or encoder.backbone, kind.pooling or encoder.pooling
    with torch.no_grad() if kind.backbone else nullcontext():
        states = backbone(tokens, augmentation, generator, pooling.needs_all_layers(backbone.layers))
        pooled = pooling(states, tokens)
    # Places of tokens are those of a view by itself.
    return pooled if isinstance(pooling, TokenStates) else tokens.restore(pooled)


def _cut(view: View, chunks: int) -> dict[int, View]:
    """A view in chunks of about as many tokens each, in packed order; where sentences are long some have none.

    One chunk is the view as it is.
    """
    if chunks == 1:
        return {0: view}
    tokens = _tokens(view)
    numbers = tokens.offsets * chunks // len(tokens.ids)  # [N], ascending: the chunk of each sentence
    sentences = numbers.bincount(minlength=chunks).tolist()
    sizes = numbers[tokens.segments].bincount(minlength=chunks).tolist()
    ids, lengths = tokens.ids.split(sizes), tokens.lengths.split(sentences)
    types = (None,) * chunks if tokens.types is None else tokens.types.split(sizes)
    cut, start = {}, 0
    for chunk, size in enumerate(sizes):
        order = torch.arange(sentences[chunk], device=tokens.ids.device)
        part = replace(view, tokens=Packed(ids[chunk], lengths[chunk], order, types[chunk]))
        if isinstance(view.pooling, TokenStates):
            places = view.pooling.places - start
            part = replace(part, pooling=TokenStates(places[(places >= 0) & (places < size)]))
        if size:
            cut[chunk] = part
        start += size
    return cut


def _rows(view: View) -> int:
    """How many vectors the view has."""
    return len(view.pooling.places) if isinstance(view.pooling, TokenStates) else len(_tokens(view))


def _tokens(view: View) -> Packed:
    assert view.tokens is not None
    return view.tokens


def _first(views: Mapping[int, View]) -> View:
    return next(iter(views.values()))

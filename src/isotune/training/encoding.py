"""From the views of a step to their vectors.

1. Views with the same backbone, pooling and heads form a group, which is encoded together.
2. With a gradient cache, the sentences of each view are cut into chunks of about as many tokens each.
3. Each forward pass encodes a chunk of all views of a group: backbone, then pooling.
4. The heads get the vectors of the whole group at once: some heads look at the whole batch (a flow at its first one).

Views with adversarial noise (ConSERT, section 3.2) take a second pass:

1. The plain views are encoded. Those under attack remember their embeddings.
2. A loss of the plain views' vectors is computed, and its gradient at the vectors.
3. For each adversarial view, that gradient goes back to the embeddings of the view under attack. Scaled to one length
   for each token, it is the noise of the adversarial view, which is then encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from isotune.data.packed import Packed, concatenate
from isotune.encoder.encoder import Encoder
from isotune.encoder.pooling import TokenStates
from isotune.methods.method import View
from isotune.training.gradient_cache import GradientCache, Pass
from isotune.views.adversarial import Adversarial, Noise, Watched, fast_gradient_values
from isotune.views.augmentation import Augmentation, PerView

Augmentations = Callable[[int, Sequence[View]], Sequence[Augmentation]]
"""From the number of a chunk and the views in it to the augmentation of each of these views."""


def encode_views(
    encoder: Encoder,
    views: Sequence[View],
    generator: Generator,
    adversary: Callable[[Sequence[Tensor]], Tensor] | None = None,
    cache: GradientCache | None = None,
) -> list[Tensor]:
    """Encodes views.

    Args:
        encoder: the encoder that is trained.
        views: the views to encode.
        generator: the source of the augmentations' random numbers.
        adversary: the loss that adversarial views increase, from the vectors of all other views.
        cache: cuts the views into chunks. Its `backward` has to follow the backward pass of the loss.

    Returns:
        The vectors of each view, [N, d] in float32 (float64 for a float64 encoder).
    """
    views = [replace(view) for view in views]  # a method may ask for one view twice, and each is encoded
    passes = Passes(encoder, views, generator, cache)
    if adversary and any(isinstance(view.augmentation, Adversarial) for view in views):
        return _encode_with_adversary(passes, views, adversary)
    return passes.encode(views)


class Passes:
    """Makes the forward passes of a step, and remembers which pass encoded which chunk of a view."""

    def __init__(
        self, encoder: Encoder, views: Sequence[View], generator: Generator, cache: GradientCache | None
    ) -> None:
        self.chunks = cache.chunks(views) if cache else 1  # the number of chunks that views are cut into
        self.made: dict[tuple[View, int], Pass] = {}  # by the view and the number of the chunk
        self._encoder, self._generator = encoder, generator
        trained = any(parameter.requires_grad for parameter in encoder.backbone.parameters())
        self._cache = cache if self.chunks > 1 and trained else None

    def encode(self, views: Sequence[View], augmentations: Augmentations | None = None) -> list[Tensor]:
        """The vectors of views, in their order. `augmentations` replaces those of the views."""
        encoded: dict[View, Tensor] = {}
        for group in _groups(views):
            kind = group[0]
            vectors = [kind.vectors] if kind.vectors is not None else self._pool_group(group, augmentations)
            if self._encoder.heads and kind.heads and not kind.backbone and not isinstance(kind.pooling, TokenStates):
                vectors = self._encoder.heads(torch.cat(vectors)).split([len(of_view) for of_view in vectors])
            encoded |= zip(group, vectors, strict=True)
        return [encoded[view].to(torch.promote_types(encoded[view].dtype, torch.float32)) for view in views]

    def _pool_group(self, group: Sequence[View], augmentations: Augmentations | None) -> list[Tensor]:
        """Pooled states of each view of a group: [N, d] in the caller's order, or [M, d] of single tokens."""
        frozen_copy = group[0].backbone is not None
        make_pass = self._cache.run if self._cache and not frozen_copy else Pass
        cut_views = {view: _cut(view, self.chunks) for view in group}
        pooled: dict[View, list[Tensor]] = {view: [] for view in group}
        for chunk in range(self.chunks):
            parts = {view: chunks[chunk] for view, chunks in cut_views.items() if chunk in chunks}
            if not parts:
                continue
            chosen = partial(augmentations, chunk, list(parts)) if augmentations else None
            made = make_pass(partial(_pool, self._encoder, list(parts.values()), self._generator, chosen))
            outputs = made.output.split([_vector_count(part) for part in parts.values()])
            for view, output in zip(parts, outputs, strict=True):
                pooled[view].append(output)
                self.made[view, chunk] = made
        joined = [torch.cat(of_view) for of_view in pooled.values()]
        if self.chunks == 1 or isinstance(group[0].pooling, TokenStates):
            return joined
        return [_tokens(view).restore(vectors) for view, vectors in zip(group, joined, strict=True)]


def _groups(views: Sequence[View]) -> list[list[View]]:
    """Views that are encoded together. A view of given vectors is a group by itself."""
    groups: dict[tuple[object, ...], list[View]] = {}
    for view in views:
        alone = None if view.vectors is None else view
        groups.setdefault((view.backbone, view.pooling, view.heads, alone), []).append(view)
    return list(groups.values())


def _pool(
    encoder: Encoder,
    views: Sequence[View],
    generator: Generator,
    augmentations: Callable[[], Sequence[Augmentation]] | None,
) -> Tensor:
    """One forward pass: the pooled states of the views of a group, view after view."""
    kind = views[0]
    batches = [_tokens(view) for view in views]
    tokens = concatenate(batches)
    each = augmentations() if augmentations else [view.augmentation for view in views]
    augmentation = PerView(list(each), [len(batch) for batch in batches])
    with torch.no_grad() if kind.backbone else nullcontext():
        return encoder.pool(tokens, augmentation, generator, kind.pooling, kind.backbone)


def _cut(view: View, chunks: int) -> dict[int, View]:
    """The chunks of a view by number. Each has about as many tokens as any other; some can be empty and are left out.

    The sentences stay in packed order, shortest first. A single chunk is the view itself.
    """
    if chunks == 1:
        return {0: view}
    tokens = _tokens(view)
    chunk_of = tokens.offsets * chunks // len(tokens.ids)  # [N], ascending: the chunk of each sentence
    sentence_counts = chunk_of.bincount(minlength=chunks).tolist()
    token_counts = chunk_of[tokens.segments].bincount(minlength=chunks).tolist()
    ids, lengths = tokens.ids.split(token_counts), tokens.lengths.split(sentence_counts)
    types = (None,) * chunks if tokens.types is None else tokens.types.split(token_counts)
    parts, start = {}, 0
    for chunk, token_count in enumerate(token_counts):
        order = torch.arange(sentence_counts[chunk], device=tokens.ids.device)
        part = replace(view, tokens=Packed(ids[chunk], lengths[chunk], order, types[chunk]))
        if isinstance(view.pooling, TokenStates):
            places = view.pooling.places - start
            part = replace(part, pooling=TokenStates(places[(places >= 0) & (places < token_count)]))
        if token_count:
            parts[chunk] = part
        start += token_count
    return parts


def _vector_count(view: View) -> int:
    """How many vectors the view has."""
    return len(view.pooling.places) if isinstance(view.pooling, TokenStates) else len(_tokens(view))


def _tokens(view: View) -> Packed:
    assert view.tokens is not None, "a view has tokens or vectors"
    return view.tokens


def _encode_with_adversary(
    passes: Passes, views: Sequence[View], adversary: Callable[[Sequence[Tensor]], Tensor]
) -> list[Tensor]:
    """The vectors [N, d] of all views, some of which are adversarial.

    Args:
        passes: makes the forward passes.
        views: the views. An adversarial view names the view under attack by its number.
        adversary: the loss that adversarial views increase, from the vectors of all other views.
    """
    attacks = {view: view.augmentation for view in views if isinstance(view.augmentation, Adversarial)}
    plain = {number: view for number, view in enumerate(views) if view not in attacks}
    watched = {attack.of: Watched(plain[attack.of].augmentation) for attack in attacks.values()}
    plain |= {number: replace(plain[number], augmentation=watcher) for number, watcher in watched.items()}
    encoded = dict(zip(plain, passes.encode(list(plain.values())), strict=True))
    targets = {view: _Target(plain[attack.of], watched[attack.of], attack.norm) for view, attack in attacks.items()}
    noise = _Noise(passes, targets, adversary(list(encoded.values())))
    of_attacks = dict(zip(attacks, passes.encode(list(attacks), noise), strict=True))
    return [encoded[number] if number in encoded else of_attacks[view] for number, view in enumerate(views)]


class _Target(NamedTuple):
    """What an adversarial view attacks."""

    view: View  # the view under attack
    watched: Watched  # its augmentation, which keeps the embeddings
    norm: float  # the length of each token's noise


class _Noise:
    """The noise of adversarial views: the direction in which a loss of the plain views grows fastest."""

    def __init__(self, passes: Passes, targets: Mapping[View, _Target], loss: Tensor) -> None:
        """Takes the passes of the plain views, the target of each adversarial view, and the loss, a scalar."""
        self._passes, self._targets = passes, targets
        attacked = {target.view for target in targets.values()}
        # One pass may have encoded several of the views under attack.
        sources = list(dict.fromkeys(made for (view, _), made in passes.made.items() if view in attacked))
        gradients = torch.autograd.grad(loss, [source.output for source in sources], retain_graph=True)
        self._gradients = dict(zip(sources, gradients, strict=True))  # of the loss, at the outputs of the passes

    def __call__(self, chunk: int, views: Sequence[View]) -> list[Noise]:
        """The noise of each of these adversarial views, for the sentences of a chunk."""
        by_source: dict[Pass, list[View]] = {}
        for view in views:
            by_source.setdefault(self._passes.made[self._targets[view].view, chunk], []).append(view)
        noises: dict[View, Noise] = {}
        for source, attackers in by_source.items():
            with torch.enable_grad():
                # The gradient of this product at the embeddings is the gradient of the loss.
                product = (source.again() * self._gradients[source]).sum()
            _, watched, norms = zip(*(self._targets[view] for view in attackers), strict=True)
            noises |= zip(attackers, fast_gradient_values(product, watched, norms), strict=True)
        return [noises[view] for view in views]

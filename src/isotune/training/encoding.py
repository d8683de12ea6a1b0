"""From the views that a method asks for to their vectors."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from dataclasses import replace

import torch
from torch import Generator, Tensor

from isotune.data.packed import concatenate
from isotune.encoder.encoder import Encoder
from isotune.encoder.pooling import TokenStates
from isotune.methods.method import View
from isotune.views.adversarial import Adversarial, Watched, fast_gradient_values
from isotune.views.augmentation import PerView


def encode_views(
    encoder: Encoder,
    views: Sequence[View],
    generator: Generator,
    adversary: Callable[[Sequence[Tensor]], Tensor] | None = None,
) -> list[Tensor]:
    """What the views encode to, [N, d] each, from one forward pass for all views of one kind.

    Args:
        encoder: the encoder that is trained.
        views: what to encode.
        generator: where the augmentations' random numbers come from.
        adversary: the loss that adversarial views climb, from the vectors of the others.
    """
    attacks = {i: view.augmentation for i, view in enumerate(views) if isinstance(view.augmentation, Adversarial)}
    if not attacks or adversary is None:
        return _encode(encoder, views, generator)
    # The clean views first; the gradient of their loss makes the noise of the others.
    watched = {attack.of: Watched(views[attack.of].augmentation) for attack in attacks.values()}
    clean = {i: view for i, view in enumerate(views) if i not in attacks}
    prepared = [replace(view, augmentation=watched.get(i, view.augmentation)) for i, view in clean.items()]
    encoded = dict(zip(clean, _encode(encoder, prepared, generator), strict=True))
    loss = adversary([vectors.float() for vectors in encoded.values()])
    targets, norms = zip(*((watched[attack.of], attack.norm) for attack in attacks.values()), strict=True)
    noises = fast_gradient_values(loss, targets, norms)
    attacked = [replace(views[i], augmentation=noise) for i, noise in zip(attacks, noises, strict=True)]
    encoded |= dict(zip(attacks, _encode(encoder, attacked, generator), strict=True))
    return [encoded[i] for i in range(len(views))]


def _encode(encoder: Encoder, views: Sequence[View], generator: Generator) -> list[Tensor]:
    kinds: dict[Hashable, list[int]] = {}
    for i, view in enumerate(views):
        by_itself = None if view.vectors is None else i
        kinds.setdefault((view.backbone, view.pooling, view.heads, by_itself), []).append(i)
    encoded: dict[int, Tensor] = {}
    for members in kinds.values():
        vectors = _encode_kind(encoder, [views[i] for i in members], generator)
        encoded |= dict(zip(members, vectors, strict=True))
    return [encoded[i] for i in range(len(views))]


def _encode_kind(encoder: Encoder, views: Sequence[View], generator: Generator) -> Sequence[Tensor]:
    """Views that differ in their sentences and augmentations only."""
    kind = views[0]
    if kind.vectors is not None:
        return [encoder.heads(kind.vectors)]
    batches = [view.tokens for view in views if view.tokens is not None]
    sizes = [len(batch) for batch in batches]
    tokens = concatenate(batches)
    backbone, pooling = kind.backbone or encoder.backbone, kind.pooling or encoder.pooling
    with torch.no_grad() if kind.backbone else nullcontext():
        augmentation = PerView([view.augmentation for view in views], sizes)
        states = backbone(tokens, augmentation, generator, pooling.needs_all_layers(backbone.layers))
        pooled = pooling(states, tokens)
    if isinstance(pooling, TokenStates):  # a view by itself: its places are those of its own tokens
        return [pooled]
    vectors = tokens.restore(pooled)
    if kind.heads and not kind.backbone:
        vectors = encoder.heads(vectors)
    split: Sequence[Tensor] = vectors.split(sizes)
    return split

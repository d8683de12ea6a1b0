"""From sentence vectors to the plane: t-SNE, which keeps neighbours together, or PCA, which takes seconds."""

import signal
from contextlib import nullcontext
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from isotune.errors import InputError, require_extra, unknown
from isotune.signals import StopSignal
from isotune.use.map import Projection

FEATURES = 50  # the main directions that t-SNE works on; van der Maaten and Hinton (2008, section 4.2) take 30
PERPLEXITY = 30.0  # openTSNE's default
INTERPOLATED = 10_000  # vectors from which on interpolation is used in place of trees, and several threads pay
HEAR_EVERY = 5  # steps between two looks for Ctrl-C
SMALLEST = 3  # sentences that a plane needs


def project(vectors: NDArray[np.float32], projection: Projection = "tsne", seed: int = 0) -> NDArray[np.float32]:
    """Lays N vectors [N, d] of length 1 out in the plane: returns [N, 2].

    Distances between vectors of length 1 rank like their cosines.
    """
    from sklearn.decomposition import PCA

    if projection not in get_args(Projection):
        raise unknown("projection", projection, get_args(Projection))
    if len(vectors) < SMALLEST:
        raise InputError(f"{len(vectors)} sentences: a map needs {SMALLEST} or more")
    components = 2 if projection == "pca" else min(FEATURES, *vectors.shape)
    main: NDArray[np.float32] = PCA(components, random_state=seed).fit_transform(vectors)  # [N, components]
    if projection == "pca":
        return main
    require_extra("map", "openTSNE")
    from openTSNE import TSNE

    trees, stop = len(vectors) < INTERPOLATED, StopSignal()
    tsne = TSNE(
        perplexity=min(PERPLEXITY, (len(vectors) - 1) / 3),
        initialization="pca",
        random_state=seed,
        n_jobs=1 if trees else -1,  # on a busy machine, threads wait for each other
        negative_gradient_method="bh" if trees else "fft",
        callbacks=[lambda *_: stop.received is not None] if trees else None,
        callbacks_every_iters=HEAR_EVERY,
    )
    start = tsne.prepare_initial(main)  # before the block, so that Ctrl-C acts at once
    with stop if trees else nullcontext():  # an exception of Ctrl-C in openTSNE's tree would crash the process
        plane = tsne.fit(main, start.affinities, np.asarray(start))
    if stop.received:
        signal.raise_signal(stop.received)
        raise KeyboardInterrupt  # the plane is unfinished, also where the signal's handler returns
    return np.asarray(plane, np.float32)

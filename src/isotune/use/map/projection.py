"""From sentence vectors to the plane: t-SNE, which keeps neighbours together, or PCA, which takes seconds."""

from typing import get_args

import numpy as np
from numpy.typing import NDArray

from isotune.errors import InputError, require_extra, unknown
from isotune.use.map import Projection

FEATURES = 50  # the main directions that t-SNE works on; van der Maaten and Hinton (2008, section 4.2) take 30
PERPLEXITY = 30.0  # openTSNE's default
THREADED = 10_000  # vectors from which on several threads pay; on a busy machine they wait for each other
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

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    threads = 1 if len(vectors) < THREADED else -1
    plane = TSNE(perplexity=perplexity, initialization="pca", random_state=seed, n_jobs=threads).fit(main)
    return np.asarray(plane, np.float32)

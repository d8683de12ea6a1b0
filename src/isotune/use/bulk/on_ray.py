"""A folder of vectors that the machines of a Ray cluster make.

A task makes one file of vectors, by `folder.py`. Each process of the cluster loads the encoder
once.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, cast

from isotune.cluster import connect, spread
from isotune.encoder.encoder import Encoder
from isotune.encoder.stream import Advance
from isotune.errors import InputError
from isotune.kernels import Precision
from isotune.kernels.cpu.memory import tune_process
from isotune.kernels.precision import resolved
from isotune.use.bulk.folder import (
    Outcome,
    Part,
    VectorFolder,
    find_parts,
    open_folder,
    tell,
)
from isotune.use.bulk.places import Place
from isotune.use.bulk.settings import Settings
from isotune.use.bulk.vector_file import Encoded


def encode_on_ray(
    encoder: str,
    sources: Sequence[str],
    out: str | Path,
    *,
    address: str | None = None,
    advance: Advance | None = None,
    **settings: Any,
) -> Outcome:
    """Makes the files of vectors that are not there, as `encode_files` does.

    Args:
        encoder: a name on the hub, or a folder that every machine has.
        sources: files, patterns, folders and URIs, which every machine can read.
        out: a folder or a URI, which every machine can write.
        address: the cluster, as for `ray.init`; else the one at RAY_ADDRESS, or this machine.
        advance, settings: as `encode_files` has them.
    """
    parts = find_parts(sources)
    if os.path.exists(encoder):
        # Tasks have another current folder.
        encoder = os.path.abspath(encoder)
    _, cluster_gpus = connect(address)
    gpus = min(1, cluster_gpus)
    device = "cpu"
    if gpus:
        device = "cuda"
    how = Settings(encoder, **settings)
    ((_, number_type),) = spread(partial(resolved, how.precision), [device], gpus)
    how = replace(how, precision=cast(Precision | None, number_type))
    folder, _ = open_folder(Place.of(out), how)
    made = []
    problems = []
    for _, result in spread(partial(_encode, folder), folder.left(parts), gpus):
        if isinstance(result, str):
            problems.append(result)
            continue
        made.append(result)
        if advance:
            advance(result.rows)
    tell(problems, len(parts))
    return folder.outcome(parts, made)


def _encode(folder: VectorFolder, part: Part) -> Encoded:
    """Makes a file of vectors."""
    encoder = _loaded(folder.encoder, folder.precision, folder.dimension, folder.fingerprint)
    return folder.encode(part, encoder)


@lru_cache(maxsize=1)
def _loaded(encoder: str, precision: Precision | None, dimension: int, fingerprint: str) -> Encoder:
    """The encoder of this process."""
    tune_process()
    loaded = Encoder.load(encoder, precision=precision, dimensions=dimension)
    if loaded.fingerprint() != fingerprint:
        raise InputError(f"{encoder}: a machine of the cluster has another encoder in this place")
    return loaded

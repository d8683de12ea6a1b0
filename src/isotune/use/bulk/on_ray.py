"""A folder of vectors that the machines of a Ray cluster make, and its rows counted at the end.

A task makes one file of vectors, by `folder.py`. Each process of the cluster loads the encoder once.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import count, islice
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet
from pyarrow.dataset import dataset

from isotune.cluster import connect, spread
from isotune.encoder.encoder import Encoder
from isotune.encoder.stream import Advance
from isotune.errors import InputError, require_extra, telling
from isotune.files import rust_writes
from isotune.kernels import Precision
from isotune.kernels.cpu.memory import tune_process
from isotune.kernels.precision import resolved
from isotune.use.bulk.folder import Part, VectorFolder, find_parts, tell
from isotune.use.bulk.places import Place
from isotune.use.bulk.vector_file import Source, rows_of_file

ID = "id"  # the column of the ids, if no other is named
LANCE = ".lance"

Hashes = NDArray[np.bytes_]  # of ids, 16 bytes each


class Counts(NamedTuple):
    """The rows of a folder of vectors, told apart by their ids."""

    read: int  # rows with a text in the sources
    written: int  # rows with a vector
    twice: int  # rows with a vector whose id another such row has already
    lost: int  # rows with a text that have no vector
    cut: int  # texts that were cut to the encoder's limit, by this command


def encode_on_ray(
    encoder: str,
    sources: Sequence[str],
    out: str,
    *,
    address: str | None = None,
    ids: str = ID,
    columns: Mapping[str, str] | None = None,
    precision: Precision | None = None,
    normalize: bool = False,
    advance: Advance | None = None,
) -> Counts:
    """Makes the files of vectors that are not there, as `encode_files` does, and counts all rows.

    Args:
        encoder: a name on the hub, or a folder that every machine has.
        sources: files, patterns, folders and URIs, which every machine can read.
        out: a folder or a URI. One that ends in .lance becomes a Lance table of the files in OUT.parts.
        address: the cluster, as for `ray.init`; else the one at RAY_ADDRESS, or this machine.
        ids: the column that tells rows apart. A file without the column "id" gets one with FILE:ROW.
        columns, precision, normalize, advance: as `encode_files` has them.
    """
    if is_table := out.endswith(LANCE):
        require_extra("search", "lancedb")
        if not re.fullmatch(r"[\w.-]+", os.path.basename(out), re.ASCII):
            raise InputError(f"{out}: the name of a Lance table has letters, digits, _, - and dots only; name another")
        if Place.of(out).files() and not Place.of(f"{out}.parts").files():
            raise InputError(f"{out}: it is there already, and not of this command; name another")
    parts = find_parts(sources, ".parquet")
    encoder = os.path.abspath(encoder) if os.path.exists(encoder) else encoder  # tasks have another current folder
    gpus = min(1, connect(address)[1])
    ((_, number_type),) = spread(partial(resolved, precision), ["cuda" if gpus else "cpu"], gpus)
    folder = VectorFolder(
        Place.of(f"{out}.parts" if is_table else out),
        encoder,
        cast(Precision | None, number_type),
        {"suffix": ".parquet", "normalize": normalize, "columns": dict(columns or {})},
        ids,
    )
    fingerprint = folder.open().fingerprint()
    cut, problems, left = 0, [], folder.left(parts)
    for _, made in spread(partial(_encode, folder, fingerprint), left, gpus):
        if isinstance(made, str):
            problems.append(made)
            continue
        cut += made[1]
        if advance:
            advance(made[0])
    tell(problems, len(parts))
    counts = []
    for _, counted in spread(partial(_count, folder), parts):
        if isinstance(counted, str):
            raise InputError(f"the rows can't be counted: {counted}")
        counts.append(counted)
    read, lost, hashes = zip(*counts, strict=True)
    written = np.concatenate(hashes)
    if is_table and (left or not Place.of(out).files()):
        _write_table([folder.place.below(part.name) for part in parts], out)
    return Counts(sum(read), len(written), len(written) - len(np.unique(written)), sum(lost), cut)


def _encode(folder: VectorFolder, fingerprint: str, part: Part) -> tuple[int, int]:
    """Makes a file of vectors: its rows, and how many texts were cut."""
    encoder = _loaded(folder.encoder, folder.precision, fingerprint)
    return folder.encode(part, encoder, partial(_with_ids, part, folder.ids))


@lru_cache(maxsize=1)
def _loaded(encoder: str, precision: Precision | None, fingerprint: str) -> Encoder:
    """The encoder of this process."""
    tune_process()
    loaded = Encoder.load(encoder, precision=precision)
    if loaded.fingerprint() != fingerprint:
        raise InputError(f"{encoder}: a machine of the cluster has another encoder in this place")
    return loaded


def _count(folder: VectorFolder, part: Part) -> tuple[int, int, Hashes]:
    """The rows of a file of text, how many of them have no vector, and the ids in its file of vectors."""
    target = folder.place.below(part.name)
    with part.source.read() as path, rows_of_file(path, folder.options["columns"]) as source:
        read = [_hashes(table[folder.ids]) for table in _with_ids(part, folder.ids, source)[2]]
    advice = "; remove this file, and give the command again"
    with telling((OSError, pa.ArrowException), f"{target.name}: it can't be read", advice), target.read() as path:
        written = _hashes(parquet.read_table(path, columns=[folder.ids])[folder.ids])
    all_read = np.concatenate([np.empty(0, "S16"), *read])
    return len(all_read), int(np.isin(all_read, written, invert=True).sum()), written


def _with_ids(part: Part, ids: str, source: Source) -> Source:
    """Gives rows their ids."""
    column, schema, tables = source
    is_made = ids not in schema.names
    if is_made and ids != ID:
        raise InputError(f"{part.source.name}: no column {ids!r}; it has {', '.join(schema.names)}")
    made = (f"{part.file}:{row}" for row in count(1))

    def identified() -> Iterator[pa.Table]:
        done = 0
        for table in tables:
            if is_made:
                table = table.append_column(ID, pa.array(islice(made, len(table)), pa.string()))
            elif table[ids].null_count:
                row = done + table[ids].is_null().to_pylist().index(True) + 1
                raise InputError(f"{part.source.name}: row {row} of those with a text has no {ids}")
            done += len(table)
            yield table

    return column, schema.append(pa.field(ID, pa.string())) if is_made else schema, identified()


def _hashes(ids: pa.ChunkedArray) -> Hashes:
    return np.frombuffer(b"".join(blake2b(str(id).encode(), digest_size=16).digest() for id in ids.to_pylist()), "S16")


def _write_table(files: Sequence[Place], out: str) -> None:
    os.environ.setdefault("LANCE_LOG", "error")
    import lancedb

    base, name = os.path.split(out.removesuffix(LANCE))
    paths, system = [file.path for file in files], files[0].system
    with telling((pa.ArrowException, OSError), f"{out}: the vectors are in {out}.parts, but make no table"):
        fragments = dataset(paths, filesystem=system, format="parquet").get_fragments()
        schema = pa.unify_schemas([file.physical_schema for file in fragments], promote_options="permissive")
        rows = dataset(paths, schema, "parquet", system).scanner().to_reader()
        with rust_writes():
            lancedb.connect(base or ".").create_table(name, rows, mode="overwrite")

"""`isotune serve`: encoders over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from isotune.cli.parameters import DIMENSIONS, PRECISION, Name, labels, within
from isotune.kernels import Precision

if TYPE_CHECKING:
    from isotune.encoder.classifier import Classifier
    from isotune.encoder.encoder import Encoder
    from isotune.use.quantization import Ranges
    from isotune.use.search import Index

ENCODERS = (
    "Sentence encoders: folders, or names on the Hugging Face hub. The page shows several side by "
    "side, such as one after training and one before. The first is used for requests that name "
    "none."
)
INDEX = (
    "An index that /search searches, made by isotune index with one of these encoders, or with the "
    "teacher of one that was trained to give its vectors (--match vectors)."
)
RANGES = (
    "The ranges that isotune encode --vectors int8 has written, such as vectors.ranges.json: "
    "vectors of their encoder can be asked for as int8."
)
HOST = (
    "The address to listen at. Only this machine reaches 127.0.0.1; 0.0.0.0 is reached from "
    "everywhere."
)
PORT = "The port to listen at; 0 for any that is free."
TITLE = "The title of the page."
KEYS = "A file with the API keys that requests may have, one a line. Unset: requests need no key."
ORIGINS = (
    "Origins of other web pages whose scripts may call the server (CORS), such as "
    "https://example.com."
)
QUEUE = "How many requests may be in progress; the next one is answered with status 429."
TIMEOUT = "After how many seconds of waiting a request is answered with status 503."


def serve(
    *encoder: Annotated[Name, Parameter(help=ENCODERS, required=True)],
    index: Annotated[Path | None, Parameter(help=INDEX, metavar="DIR")] = None,
    ranges: Annotated[Path | None, Parameter(help=RANGES, metavar="FILE")] = None,
    host: Annotated[str, Parameter(help=HOST)] = "127.0.0.1",
    port: Annotated[int, Parameter(help=PORT)] = 8000,
    title: Annotated[str, Parameter(help=TITLE)] = "isotune",
    keys: Annotated[Path | None, Parameter(help=KEYS, metavar="FILE", group="Access")] = None,
    origins: Annotated[
        tuple[str, ...],
        Parameter(help=ORIGINS, metavar="URL...", consume_multiple=1, group="Access"),
    ] = (),
    queue: Annotated[int, Parameter(help=QUEUE, group="Access"), within(1, 1e6)] = 256,
    timeout: Annotated[float, Parameter(help=TIMEOUT, group="Access"), within(0.001, 1e6)] = 60.0,
    dimensions: Annotated[int | None, DIMENSIONS] = None,
    precision: Annotated[Precision, PRECISION] = "auto",
) -> None:
    """The server has OpenAI's /v1/embeddings and /v1/models, and /similarity, /predict, /search,
    /health, /metrics and /openapi.json. The page is at its root.
    """
    from isotune.errors import require_extra

    names = list(dict.fromkeys(encoder))
    short = labels(names)
    require_extra("serve", "httptools", "msgspec", "prometheus_client", "starlette", "uvicorn")
    from isotune.use.serve.app import application
    from isotune.use.serve.limits import Limits
    from isotune.use.serve.server import listen, read_keys
    from isotune.use.serve.server import serve as run

    accepted = read_keys(keys)
    # The address comes first: loading takes seconds, and the port may be taken.
    listener, url = listen(host, port)
    with listener:
        encoders, classifiers = _load(names, short, precision, dimensions)
        limits = Limits(requests=queue, seconds=timeout)
        app = application(
            encoders,
            classifiers=classifiers,
            limits=limits,
            keys=accepted,
            origins=origins,
            index=_open_index(index, encoders),
            hosts=_local_hosts(listener.getsockname()[0], host, accepted),
            ranges=_read_ranges(ranges, encoders),
            title=title,
        )
        print(f"{', '.join(short)}: {url} (Ctrl-C stops the server)", flush=True)
        run(app, listener, limits)


def _load(
    names: Sequence[str], short: Sequence[str], precision: Precision, dimensions: int | None
) -> tuple[dict[str, Encoder], dict[str, Classifier]]:
    """Loads the encoders, by their short names, and their classifiers, which read whole vectors.

    A classifier has the short name of its encoder, with the name of its task, if it has one.
    """
    from isotune.encoder.classifier import classifiers_of
    from isotune.encoder.encoder import Encoder
    from isotune.encoder.format.pretrained import local_folder

    encoders = {}
    classifiers = {}
    for label, name in zip(short, names, strict=True):
        encoder = Encoder.load(name, precision=precision)
        encoders[label] = encoder
        if dimensions is not None:
            encoders[label] = encoder.cut_to(dimensions)
        for task, classifier in classifiers_of(encoder, local_folder(name)).items():
            of_task = f"{label}/{task}" if task else label
            classifiers[of_task] = classifier
    return encoders, classifiers


def _open_index(folder: Path | None, encoders: Mapping[str, Encoder]) -> Index | None:
    """Opens an index with the encoder that made it, or else with one that learned its vectors."""
    if folder is None:
        return None
    from isotune.use.search import Index

    description = Index.open(folder).description
    name = _name_of(description["fingerprint"], description["dimension"], encoders)
    if name is None:
        learned = [
            name for name, other in encoders.items() if other.space_of == description["fingerprint"]
        ]
        # The index refuses an encoder of another space, and says which one it needs.
        name = next(iter([*learned, *encoders]))
    return Index.open(folder, encoders[name])


def _name_of(fingerprint: str, dimension: int, encoders: Mapping[str, Encoder]) -> str | None:
    """The name of the encoder that has this fingerprint with so many features; None if none has."""
    for name, encoder in encoders.items():
        if encoder.dimension < dimension:
            continue
        if encoder.cut_to(dimension).fingerprint() == fingerprint:
            return name
    return None


def _read_ranges(path: Path | None, encoders: Mapping[str, Encoder]) -> dict[str, Ranges]:
    """The ranges of a file, by the name of the encoder whose vectors they are of."""
    if path is None:
        return {}
    from isotune.errors import InputError
    from isotune.use.quantization import Ranges

    ranges = Ranges.read(path)
    name = _name_of(ranges.fingerprint, len(ranges.least), encoders)
    if name is None:
        raise InputError(
            f"{path}: the ranges are of no encoder that is served; name that encoder too"
        )
    return {name: ranges}


def _local_hosts(address: str, host: str, keys: Sequence[str]) -> tuple[str, ...]:
    """The names of this machine under which the server answers, if only this machine reaches it."""
    import sys
    from ipaddress import ip_address

    from isotune.use.serve.app import LOCAL_NAMES

    if ip_address(address).is_loopback:
        return (*LOCAL_NAMES, host)
    if not keys:
        print(
            "warning: everyone who reaches this address may use the server; --keys limits this",
            file=sys.stderr,
        )
    return ()

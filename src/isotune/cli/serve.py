"""`isotune serve`: encoders over HTTP."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import PRECISION, Name, labels, within
from isotune.kernels import Precision

ENCODERS = (
    "Sentence encoders: folders, or names on the Hugging Face hub. The page shows several side by side, such as one "
    "after training and one before. The first is used for requests that name none."
)
INDEX = "An index that /search searches, made by isotune index with one of these encoders."
HOST = "The address to listen at. Only this machine reaches 127.0.0.1; 0.0.0.0 is reached from everywhere."
PORT = "The port to listen at; 0 for any that is free."
KEYS = "A file with the API keys that requests may have, one a line. Unset: requests need no key."
ORIGINS = "Origins of other web pages whose scripts may call the server (CORS), such as https://example.com."
QUEUE = "How many requests may be in progress; the next one is answered with status 429."
TIMEOUT = "After how many seconds of waiting a request is answered with status 503."


def serve(
    *encoder: Annotated[Name, Parameter(help=ENCODERS, required=True)],
    index: Annotated[Path | None, Parameter(help=INDEX, metavar="DIR")] = None,
    host: Annotated[str, Parameter(help=HOST)] = "127.0.0.1",
    port: Annotated[int, Parameter(help=PORT)] = 8000,
    keys: Annotated[Path | None, Parameter(help=KEYS, metavar="FILE", group="Access")] = None,
    origins: Annotated[
        tuple[str, ...],
        Parameter(help=ORIGINS, metavar="URL...", consume_multiple=1, group="Access"),
    ] = (),
    queue: Annotated[int, Parameter(help=QUEUE, group="Access"), within(1, 1e6)] = 256,
    timeout: Annotated[float, Parameter(help=TIMEOUT, group="Access"), within(0.001, 1e6)] = 60.0,
    precision: Annotated[Precision, PRECISION] = "auto",
) -> None:
    """The server has OpenAI's /v1/embeddings and /v1/models, and /similarity, /search, /health, /metrics and
    /openapi.json. The page is at its root.
    """
    import sys
    from ipaddress import ip_address

    from isotune.errors import require_extra

    names = list(dict.fromkeys(encoder))
    short = labels(names)
    require_extra("serve", "httptools", "msgspec", "prometheus_client", "starlette", "uvicorn")
    from isotune.encoder.encoder import Encoder
    from isotune.use.serve.app import LOCAL_NAMES, application
    from isotune.use.serve.limits import Limits
    from isotune.use.serve.server import listen, read_keys
    from isotune.use.serve.server import serve as run

    accepted = read_keys(keys)
    listener, url = listen(host, port)  # first: loading takes seconds, and the port may be taken
    with listener:
        encoders = {
            label: Encoder.load(name, precision=precision)
            for label, name in zip(short, names, strict=True)
        }
        limits = Limits(requests=queue, seconds=timeout)
        opened = None
        if index:
            from isotune.use.search import Index

            prints = {model.fingerprint(): model for model in encoders.values()}
            opened = Index.open(index)
            opened = Index.open(
                index, prints.get(opened.description["fingerprint"], next(iter(encoders.values())))
            )
        is_local = ip_address(listener.getsockname()[0]).is_loopback
        if not is_local and not accepted:
            print(
                "warning: everyone who reaches this address may use the server; --keys limits this",
                file=sys.stderr,
            )
        hosts = (*LOCAL_NAMES, host) if is_local else ()
        app = application(
            encoders, limits=limits, keys=accepted, origins=origins, index=opened, hosts=hosts
        )
        print(f"{', '.join(short)}: {url} (Ctrl-C stops the server)", flush=True)
        run(app, listener, limits)

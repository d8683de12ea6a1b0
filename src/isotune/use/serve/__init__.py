"""A server for encoders: OpenAI's embeddings, similarity and search over HTTP, and a page.

The path of a request is

    connection (protocol.py) -> gate (gate.py: key, queue, limits, time-outs)
    -> route (app.py, bodies.py) -> batch (batcher.py) -> response

`server.py` puts the parts together. Only `isotune serve` imports this room: its libraries are the
extra `serve`.
"""

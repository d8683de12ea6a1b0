"""What the server accepts of a request, and how long it waits."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The limits of a server. Those of `isotune serve` are the defaults."""

    requests: int = 256
    """Requests in progress; the next one is answered with 429."""
    body_bytes: int = 4 * 2**20
    """Bytes of a request's body."""
    head_bytes: int = 2**16
    """Bytes of a request's header; and of what frames the chunks of a body."""
    items: int = 2048
    """Texts of a request, as at OpenAI."""
    characters: int = 65_536
    """Characters of a text."""
    hybrid_characters: int = 2048
    """Characters of the query of a hybrid search, whose words are all looked up."""
    tokens: int = 300_000
    """Tokens of all texts of a request, as at OpenAI."""
    hits: int = 4 * 2**20
    """Characters of all rows that a search gives, as JSON."""
    bytes_in_progress: int = 32 * 2**20
    """Bytes of the large bodies of all requests in progress; beyond them: 429."""
    tokens_in_progress: int = 1_000_000
    """Tokens of all requests in progress that have many; beyond them: 429."""
    seconds: float = 60.0
    """Seconds from the whole request to the first byte of its answer."""
    idle_seconds: float = 120.0
    """Seconds of a connection without a request."""
    header_seconds: float = 10.0
    """Seconds from the first byte of a request's header to its end."""
    body_seconds: float = 20.0
    """Seconds from the end of a request's header to the end of its body."""
    answer_seconds: float = 60.0
    """Seconds from when an answer waits for its client to when the client has taken all of it."""
    stop_seconds: float = 8.0
    """Seconds from the signal to stop to the answers of requests in progress."""


USUAL = Limits()

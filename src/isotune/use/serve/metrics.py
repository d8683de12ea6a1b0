"""What the server counts, for Prometheus. No label has a client's text."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The counts of a server."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "isotune_requests", "Answered requests by path and status", ["path", "status"], registry=registry
        )
        self.seconds = Histogram(
            "isotune_request_seconds",
            "Seconds from a request's header to the end of its answer",
            ["path"],
            buckets=SECONDS,
            registry=registry,
        )
        self.in_progress = Gauge("isotune_requests_in_progress", "Requests without an answer yet", registry=registry)
        self.texts = Counter("isotune_texts", "Encoded texts", ["model"], registry=registry)
        self.tokens = Counter("isotune_tokens", "Encoded tokens, special tokens included", ["model"], registry=registry)
        self.cut = Counter(
            "isotune_cut_texts", "Texts that may have been cut, to the encoder's limit", ["model"], registry=registry
        )

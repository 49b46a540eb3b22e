"""What a server counts, for Prometheus. Numbers only: no text, no names, no ids."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of one app, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        registry = self.registry
        self.requests = Counter(
            "attune_requests", "Requests answered.", ["route", "method", "status"], registry=registry
        )
        self.seconds = Histogram(
            "attune_request_seconds",
            "From request to the end of the answer.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.open = Gauge("attune_requests_open", "Requests for the agent, under way or waiting.", registry=registry)
        self.streams = Gauge("attune_streams_open", "Replies that are being streamed.", registry=registry)
        self.batch = Histogram(
            "attune_batch_size",
            "Replies worked out together.",
            ["system"],
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=registry,
        )
        self.dropped = Counter("attune_dropped", "Requests not answered: full, late, gone.", ["why"], registry=registry)
        self.stages = Histogram(
            "attune_stage_seconds", "Stages of a reply.", ["stage"], buckets=_SECONDS, registry=registry
        )
        self.guard = Counter("attune_guard", "What the guard did.", ["action"], registry=registry)
        self.unkept = Counter("attune_unkept", "Conversations that the store failed to keep.", registry=registry)

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request has ended."""
        self.requests.labels(route, method if method.isalpha() and len(method) < 10 else "other", str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def reply(self, guard: Mapping[str, object], timings: Mapping[str, float]) -> None:
        """A reply was given; timings are in milliseconds."""
        self.guard.labels(str(guard.get("action", "none"))).inc()
        for stage, milliseconds in timings.items():
            self.stages.labels(stage).observe(milliseconds / 1000)

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)

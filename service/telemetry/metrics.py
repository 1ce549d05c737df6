"""The service's counters, for Prometheus."""

import platform
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    ProcessCollector,
    generate_latest,
)

from wavetrim.service.version import find_version

PARTS: Final = ("kernel", "transfer", "gpu", "cpu", "total")
"""The timed parts of a product: the keys of its timings are `<part>_seconds`."""

_SECONDS_BUCKETS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)
_RATIO_BUCKETS: Final = (0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.25, 1.5, 2, 4)
_LATENCY_BUCKETS: Final = (0.0003, *_SECONDS_BUCKETS)
_SIZE_BUCKETS: Final = tuple(2**power for power in range(5, 16))
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Methods with a label of their own; others are one label, as callers may invent any number."""


class Metrics:
    """The counters of one service. They have a registry of their own, so services can coexist.

    Attributes:
        known: The last values of gauges that cannot always be read (`api/machine/metrics`).
        engine_pid: Finds the engine's process id, None while there is none.

    All others are what is counted; each says what it is, and its labels, as Prometheus shows it.
    """

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.known: dict[str, float] = {}
        self.engine_pid: Callable[[], int | None] = lambda: None

        def count(name: str, words: str, *labels: str) -> Counter:
            return Counter(name, words, labels, registry=registry)

        def spread(name: str, words: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(name, words, labels, registry=registry, buckets=buckets)

        self.jobs_finished = count("wavetrim_jobs_finished", "Jobs finished.", "state")
        self.seconds_by_part = spread(
            "wavetrim_job_seconds", "Seconds of succeeded jobs.", _SECONDS_BUCKETS, "part"
        )
        self.queue_seconds = spread(
            "wavetrim_queue_seconds",
            "Seconds that jobs waited in the queue, and products in the lane to the engine.",
            _LATENCY_BUCKETS,
            "queue",
        )
        self.product_size = spread(
            "wavetrim_product_size",
            "Cube roots of M times N times K of the products that were computed.",
            _SIZE_BUCKETS,
        )
        self.received_bytes = count("wavetrim_received_bytes", "Bytes of matrices received.")
        self.sent_bytes = count("wavetrim_sent_bytes", "Bytes of matrices sent.")
        self.engine_restarts = count("wavetrim_engine_restarts", "Restarts of the engine.")
        self.predicted_over_measured = spread(
            "wavetrim_predicted_over_measured",
            "Predicted over measured seconds of succeeded jobs.",
            _RATIO_BUCKETS,
        )
        self.requests = count(
            "wavetrim_http_requests", "HTTP requests.", "method", "route", "status"
        )
        self.latency = spread(
            "wavetrim_http_request_seconds",
            "Seconds from a request's head to its answer's end.",
            _LATENCY_BUCKETS,
            "method",
            "route",
        )
        self.wire_refusals = count(
            "wavetrim_wire_refusals",
            "Requests and connections refused before the application; closed: without an answer.",
            "status",
        )
        self.incidents = count("wavetrim_incidents", "Errors that nobody expected.")
        self._describe_processes()
        for state in ("succeeded", "failed", "cancelled"):
            self.jobs_finished.labels(state)  # starts at 0: the first count shows as an increase

    def _describe_processes(self) -> None:
        """Adds the build's labels, and collectors of both processes."""
        build = Gauge(
            "wavetrim_build_info", "1; the labels tell.", ["version", "python"],
            registry=self.registry,
        )  # fmt: skip
        build.labels(find_version(), platform.python_version()).set(1)
        ProcessCollector(registry=self.registry)
        ProcessCollector(
            namespace="wavetrim_engine",
            pid=lambda: self.engine_pid() or "none",
            registry=self.registry,
        )

    def record_success(
        self, timings: Mapping[str, float | None], plan: Mapping[str, Any] | None
    ) -> None:
        """Counts a succeeded job.

        Args:
            timings: Measured seconds, under the keys `kernel_seconds` … `total_seconds`; None for
                parts that did not run.
            plan: The plan, of one product of a stack; None without one.
        """
        self.jobs_finished.labels("succeeded").inc()
        for part in PARTS:
            seconds = timings.get(f"{part}_seconds")
            if seconds is not None:
                self.seconds_by_part.labels(part).observe(seconds)
        total_seconds, told = timings.get("total_seconds"), plan or {}
        predicted_seconds = told.get("predicted", {}).get("total_seconds")
        if predicted_seconds is not None and total_seconds:
            products = told.get("stack") or 1
            self.predicted_over_measured.observe(products * predicted_seconds / total_seconds)

    def record_lane(self, wait_seconds: float, size: float) -> None:
        """Counts a product of a job or call that an engine has answered or that was inline.

        Args:
            wait_seconds: How long it waited for the engine; 0 for an inline product.
            size: The cube root of M·N·K.
        """
        self.queue_seconds.labels("lane").observe(wait_seconds)
        self.product_size.observe(size)

    def render(self, gauges: Sequence[Metric] = ()) -> bytes:
        """All counters, and gauges as they are now, in Prometheus's text format."""
        listed = SimpleNamespace(collect=lambda: gauges)
        return bytes(generate_latest(self.registry) + generate_latest(listed))

"""What the service counts, for Prometheus."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

PARTS: Final = ("kernel", "transfer", "gpu", "cpu", "total")
"""The timed parts of a product: the keys of its timings are `<part>_seconds`."""

_SECONDS_BUCKETS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)
_RATIO_BUCKETS: Final = (0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.25, 1.5, 2, 4)


class Metrics:
    """The counters of one service. They have a registry of their own, so services can coexist.

    Attributes:
        jobs_by_state: Jobs in the database by `state`, set when the metrics are read.
        jobs_finished: Jobs that this service has finished, by `state`.
        seconds_by_part: Measured seconds of succeeded jobs, by `part`.
        queue_depth: Jobs that wait, set when the metrics are read.
        received_bytes: Bytes of matrices that came in.
        sent_bytes: Bytes of matrices that went out.
        engine_restarts: How often the engine was started again.
        predicted_over_measured: Predicted over measured total seconds of succeeded jobs.
        requests: HTTP requests, by `method`, `route` and `status`.
        wire_refusals: What was refused before the application saw it, by `status`.
        products: Products in the lane, `waiting` or `running`, set when the metrics are read.
        arena: Sizes and counts of the arena by `what`, set when the metrics are read.
        stored_bytes: Bytes of all matrices, set when the metrics are read.
        nodes: Nodes of the cluster, set when the metrics are read.
        lost_files: Files that the database does not know, set when the metrics are read.
    """

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.jobs_by_state = Gauge(
            "wavetrim_jobs", "Jobs in the database.", ["state"], registry=registry
        )
        self.jobs_finished = Counter(
            "wavetrim_jobs_finished", "Jobs finished.", ["state"], registry=registry
        )
        self.seconds_by_part = Histogram(
            "wavetrim_job_seconds",
            "Seconds of succeeded jobs.",
            ["part"],
            registry=registry,
            buckets=_SECONDS_BUCKETS,
        )
        self.queue_depth = Gauge("wavetrim_queue_depth", "Jobs that wait.", registry=registry)
        self.received_bytes = Counter(
            "wavetrim_received_bytes", "Bytes of matrices received.", registry=registry
        )
        self.sent_bytes = Counter(
            "wavetrim_sent_bytes", "Bytes of matrices sent.", registry=registry
        )
        self.engine_restarts = Counter(
            "wavetrim_engine_restarts", "Restarts of the engine.", registry=registry
        )
        self.predicted_over_measured = Histogram(
            "wavetrim_predicted_over_measured",
            "Predicted over measured seconds of succeeded jobs.",
            registry=registry,
            buckets=_RATIO_BUCKETS,
        )
        self.requests = Counter(
            "wavetrim_http_requests",
            "HTTP requests.",
            ["method", "route", "status"],
            registry=registry,
        )
        self.wire_refusals = Counter(
            "wavetrim_wire_refusals",
            "Requests and connections refused before the application; closed: without an answer.",
            ["status"],
            registry=registry,
        )
        self.products = Gauge(
            "wavetrim_products", "Products in the lane to the engine.", ["state"], registry=registry
        )
        self.arena = Gauge(
            "wavetrim_arena",
            "The arena: sizes in bytes, and counts.",
            ["what"],
            registry=registry,
        )
        self.stored_bytes = Gauge(
            "wavetrim_stored_bytes", "Bytes of all stored matrices.", registry=registry
        )
        self.lost_files = Gauge(
            "wavetrim_lost_files",
            "Matrix files that the database does not know.",
            registry=registry,
        )
        self.nodes = Gauge(
            "wavetrim_nodes", "Nodes of the cluster that take products.", registry=registry
        )
        self.correction_factor = Gauge(
            "wavetrim_correction_factor",
            "Median of measured over predicted seconds, by device and memory or element type.",
            ["runs_like"],
            registry=registry,
        )
        self.correction_runs = Gauge(
            "wavetrim_correction_runs",
            "Runs that a correction factor is from: the newest 15 of each product.",
            ["runs_like"],
            registry=registry,
        )
        # To find a label's counter takes longer than to count.
        self._find_end = lru_cache(maxsize=8)(self.jobs_finished.labels)
        self._find_seconds = lru_cache(maxsize=8)(self.seconds_by_part.labels)
        self._find_requests = lru_cache(maxsize=256)(self.requests.labels)

    def record_success(
        self, timings: Mapping[str, float | None], predicted_total_seconds: float | None
    ) -> None:
        """Counts a succeeded job.

        Args:
            timings: Measured seconds, under the keys `kernel_seconds` … `total_seconds`; None for
                parts that did not run.
            predicted_total_seconds: What its plan had said, where there was a plan.
        """
        self._find_end("succeeded").inc()
        for part in PARTS:
            seconds = timings.get(f"{part}_seconds")
            if seconds is not None:
                self._find_seconds(part).observe(seconds)
        total_seconds = timings.get("total_seconds")
        if predicted_total_seconds is not None and total_seconds:
            self.predicted_over_measured.observe(predicted_total_seconds / total_seconds)

    def record_end(self, state: str) -> None:
        """Counts a job that ended as `failed` or `cancelled`."""
        self._find_end(state).inc()

    def record_request(self, method: str, route: str, status: int) -> None:
        """Counts an answered HTTP request."""
        self._find_requests(method, route, str(status)).inc()

    def record_wire_refusal(self, status: str) -> None:
        """Counts what was refused before the application saw it."""
        self.wire_refusals.labels(status).inc()

    def render(self) -> bytes:
        """All counters in Prometheus's text format."""
        return generate_latest(self.registry)

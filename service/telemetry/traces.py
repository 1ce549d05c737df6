"""Traces with OpenTelemetry: a span for each request, from its FastAPI hooks, and for each phase.

This needs `wavetrim[otel]`, and is imported only if `WAVETRIM_TRACES` is set. OpenTelemetry's own
variables say where spans are sent, under which name and how many of them
(OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER).
"""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from wavetrim.service.jobs.job import Job
from wavetrim.service.telemetry.logs import read_trace_parent
from wavetrim.service.version import find_version

_PHASES: Final = {"copy": "transfer_seconds", "kernel": "kernel_seconds", "cpu": "cpu_seconds"}
"""Spans of a product, and the timings that they show."""

_QUIET: Final = "/healthz/,/metrics$,/v2/health/"
_NANOSECONDS: Final = 1e9


class Traces:
    """Makes the spans of one service; a thread of the library sends them."""

    def __init__(self) -> None:
        named = Resource({"service.name": "wavetrim", "service.version": find_version()})
        self._provider = TracerProvider(resource=named.merge(OTELResourceDetector().detect()))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("wavetrim")
        self._propagator = TraceContextTextMapPropagator()

    def watch_requests(self, app: FastAPI) -> None:
        """Make a span for each request of an application, except for health and metrics."""
        FastAPIInstrumentor.instrument_app(
            app,
            tracer_provider=self._provider,
            excluded_urls=_QUIET,
            exclude_spans=["receive", "send"],
        )

    def find_parent(self, header: str) -> str | None:
        """The `traceparent` of the request's span; if it has none, the request's own header."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier.get("traceparent") or read_trace_parent(header)

    def show_product(self, message: Mapping[str, Any], ended_at: float) -> None:
        """Makes the spans of a product in one call, within the span of its request.

        Args:
            message: The engine's message of success, with `queue_seconds`.
            ended_at: When it came, UTC seconds since the epoch.
        """
        timings = message["timings"]
        began_at = ended_at - (timings.get("total_seconds") or 0.0)
        self._show("queue", began_at - message["queue_seconds"], began_at)
        self._show_phases(timings, began_at)

    def show_job(self, job: Job) -> None:
        """Makes the spans of a job that has ended, within the trace of its request."""
        if job.finished_at is None:
            return
        carrier = {} if job.trace is None else {"traceparent": job.trace}
        span = self._tracer.start_span(
            "job",
            self._propagator.extract(carrier, Context()),
            attributes={"wavetrim.job": job.id, "wavetrim.state": job.state.value},
            start_time=_count(job.created_at),
        )
        within = trace.set_span_in_context(span, Context())
        timings = job.timings or {}
        began_at = job.finished_at if job.started_at is None else job.started_at
        began_at += timings.get("device_wait_seconds") or 0.0
        self._show("queue", job.created_at, began_at, within)
        self._show_phases(timings, began_at, within)
        span.end(_count(job.finished_at))

    def close(self) -> None:
        """Send the remaining spans; may take as long as the exporter's time-out."""
        self._provider.shutdown()

    def _show_phases(
        self, timings: Mapping[str, float | None], began_at: float, within: Context | None = None
    ) -> None:
        """Makes a span for each phase: all begin with the product, as the phases overlap."""
        for name, part in _PHASES.items():
            seconds = timings.get(part)
            if seconds:
                self._show(name, began_at, began_at + seconds, within)

    def _show(
        self, name: str, began_at: float, ended_at: float, within: Context | None = None
    ) -> None:
        span = self._tracer.start_span(name, within, start_time=_count(began_at))
        span.end(_count(ended_at))


def _count(seconds: float) -> int:
    return int(seconds * _NANOSECONDS)

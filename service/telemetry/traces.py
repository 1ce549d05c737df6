"""Traces by OpenTelemetry: of each request, by FastAPI's own hooks, and of its product's phases.

Needs `wavetrim[otel]`, and is imported only where `WAVETRIM_TRACES` is on. Where spans go, under
which name and how many of them, OpenTelemetry's own variables say (OTEL_EXPORTER_OTLP_ENDPOINT,
OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER).
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
from wavetrim.service.telemetry.trace import read_trace_parent, trace_parent
from wavetrim.service.version import find_version

_PHASES: Final = {"copy": "transfer_seconds", "kernel": "kernel_seconds", "cpu": "cpu_seconds"}
"""Spans of a product, and what of its timings they show."""

_QUIET: Final = "/healthz/,/metrics$,/v2/health/"
_NANOSECONDS: Final = 1e9


class Traces:
    """Makes the spans of one service and sends them, in a thread of the library's."""

    def __init__(self) -> None:
        named = Resource({"service.name": "wavetrim", "service.version": find_version()})
        self._provider = TracerProvider(resource=named.merge(OTELResourceDetector().detect()))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("wavetrim")
        self._propagator = TraceContextTextMapPropagator()

    def watch_requests(self, app: FastAPI) -> None:
        """Have each request of an application be a span, but for those that ask how it is."""
        FastAPIInstrumentor.instrument_app(
            app,
            tracer_provider=self._provider,
            excluded_urls=_QUIET,
            exclude_spans=["receive", "send"],
        )

    def find_parent(self, header: str | None) -> str | None:
        """The `traceparent` of the request's span; where it has none, the one that it came with."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier.get("traceparent") or read_trace_parent(header)

    def show_product(self, event: Mapping[str, Any], ended_at: float) -> None:
        """Makes the spans of a product in one call, as parts of the request that is answered.

        Over gRPC, whose calls are no spans here, they are parts of the caller's trace, if any.

        Args:
            event: The engine's message of success, with `queue_seconds`.
            ended_at: When it came, UTC seconds since the epoch.
        """
        within = None
        if not trace.get_current_span().get_span_context().is_valid:
            if trace_parent.get() is None:
                return
            within = self._propagator.extract({"traceparent": trace_parent.get()}, Context())
        timings = event["timings"]
        began_at = ended_at - (timings.get("total_seconds") or 0.0)
        self._show("queue", began_at - event["queue_seconds"], began_at, within)
        self._show_phases(timings, began_at, within)

    def show_job(self, job: Job) -> None:
        """Makes the spans of a job that has ended, as parts of the request that asked for it."""
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
        """Send what is left; may take as long as the exporter's time-out."""
        self._provider.shutdown()

    def _show_phases(
        self, timings: Mapping[str, float | None], began_at: float, within: Context | None = None
    ) -> None:
        """Makes a span of each phase: as long as it took in all, from the product's begin on.

        Phases overlap, so that they are not one behind the other.
        """
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

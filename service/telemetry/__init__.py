"""Telemetry: log, metrics and traces.

`trace` has the trace that a request belongs to; `logs` writes its id into every line, `traces`
makes spans in it, with OpenTelemetry. `metrics` has the counters.
"""

"""Telemetry: log, metrics and traces.

`logs` writes the ids of a request and of its trace into every line, `traces` makes spans in that
trace, with OpenTelemetry. `metrics` has the counters.
"""

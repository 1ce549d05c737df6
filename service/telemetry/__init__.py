"""What the service tells of its work: a log, metrics, traces.

`trace` is whose part a request is; `logs` writes it into every line, `traces` makes spans of it,
where OpenTelemetry is installed. `metrics` counts what happens, `gauges` shows the moment.
"""

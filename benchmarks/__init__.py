"""Measured comparisons with others: each run writes one file of results.

`common/` is what all use; `kernels/` compares kernels, `host/` products in host memory, `http/` the
service over sockets, `jobs/` its jobs; `verify` counts the wrong products that pass their check,
`faults` what faults destroy. `figures` writes all results into the pages; `settings` is the table
of settings.

Arguments called `until` are values of time.perf_counter(). An error ends a run, with its message.
"""

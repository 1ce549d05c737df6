"""The memory-hierarchy probes of this machine, as reports.

Each module measures one thing with the kernels of `lab/gpu` and makes a report, with the
reference's figures where there are some. Measuring needs a GPU (except for `cpu_rows`), the report
does not.
"""

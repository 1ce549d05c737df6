"""Measured comparisons with others, side by side: one run, one file.

`common/` is what all use; `kernels/` compares kernels, `host/` products in host memory, `http/` the
service over sockets, `jobs/` its jobs; `verify/` counts what a product's check misses, `faults`
what faults destroy. `figures` writes all of it into the pages, `settings` is one table of them.

Arguments called `until` are values of time.perf_counter().
"""

"""Measured comparisons with others, side by side: one run, one file.

`common/` is what all use; `kernels/` compares kernels, `host/` products in host memory, `http/` the
service over sockets; `verify/` counts what a product's check misses, `faults` what faults destroy;
`readme` fills the tables that need several of them.

Arguments called `until` are values of time.perf_counter().
"""

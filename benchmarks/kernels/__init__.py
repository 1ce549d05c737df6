"""Kernels against cuBLAS on one GPU: `python -m benchmarks.kernels`.

The kernels that the `suite` names take turns in a `contest`. `tables` and `ladder` show the `rows`.
"""

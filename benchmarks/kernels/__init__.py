"""Kernels against cuBLAS on one GPU: `python -m benchmarks.kernels`.

The kernels that the `suite` names take turns in a `contest`. `ladder` shows the `rows`.
"""

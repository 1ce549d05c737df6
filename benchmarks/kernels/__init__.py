"""Kernels against cuBLAS on one GPU: `python -m benchmarks.kernels`.

Kernels take turns in a `contest`. `ladder` shows the `rows`.
"""

"""Kernels against cuBLAS on one GPU: `python -m benchmarks.kernels`.

Those that the `suite` names take turns in a `contest`. The results are `rows`; `tables` and
`ladder` show them.
"""

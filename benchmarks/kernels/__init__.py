"""Kernels against cuBLAS on one GPU: `python -m benchmarks.kernels`.

All kernels of the catalog are compiled. Those that the `suite` names take turns in a `contest`,
checked by `exact` products, while a `meter` reads clock and power. The results are `rows`; their
means are a `summary`; `tile_choice` says which tiles are chosen. `tables` and `ladder` show them.
`stalls` profiles kernels, and `banks` reads their machine code.
"""

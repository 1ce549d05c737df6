"""Kernels against cuBLAS on one GPU: `python -m benchmarks.kernels`.

All kernels of the catalog are compiled; those that the `suite` names take turns in a `contest`,
checked by `exact` products and read by a `meter`. That makes `rows`, their means a `summary`;
`tile_choice` tells which tiles are chosen. `tables` and `ladder` show them. `stalls` and `banks`
look into the machine code, `code_tables` shows that.
"""

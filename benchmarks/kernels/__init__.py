"""Kernels against cuBLAS on one GPU: `python -m benchmarks.kernels`.

All kernels of the catalog are `compiled`, and those that the `suite` names take turns in a
`contest`, read by a `meter`. `score` makes rows (`measured`), `summary` their means, `tile_choice`
tells whose tiles are chosen; `tables` and `ladder` show them. `stalls` and `banks` look into the
machine code, `code_tables` shows that.
"""

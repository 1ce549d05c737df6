"""Experiments on top of the product, used by two commands only.

`experiments/` repeats the reference programs (`wavetrim reproduce`). `probes/` measures memories,
links and launches (`wavetrim probe`) with the kernels of `gpu/`, whose sources are in `cuda/`. Both
write `reports/` of tables and plots.
"""

"""Experiments on top of the product, used by two commands only.

`experiments/` repeats the programs that wavetrim grew from (`wavetrim reproduce`), on the product's
own kernels and executor; `probes/` measures memories, links and launches (`wavetrim probe`) with
the kernels of `gpu/`, whose sources are in `cuda/`. Both make the tables and plots of `reports/`,
with the reference's figures.
"""

"""Kernels and copies of the probes: `catalog` lists the kernels of `cuda/`.

`memory`, `cycles`, `row_copies`, `overlap` and `peers` run and time them with a `stopwatch`.
"""

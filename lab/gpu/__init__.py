"""The probes' kernels and copies on a GPU: `catalog` lists the kernels of `cuda/`.

`memory`, `cycles`, `row_copies`, `overlap` and `peers` run them, timed by a `stopwatch`.
"""

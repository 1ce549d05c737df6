"""The kernels and copies of the probes, timed on a GPU.

`catalog` lists the kernels of `cuda/`, and a `stopwatch` times their launches. `memory` measures
global memory, `cycles` the memories of a multiprocessor and its registers, `row_copies` and
`overlap` copies while kernels run, `peers` copies between two GPUs.
"""

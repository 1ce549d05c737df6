"""Everything that runs on a GPU: kernels, their compilation and their launches.

`catalog` lists the kernels, each of them a `spec` with its `tiling`; `compile` makes cubins of
`cuda/`. Then, in the order of a product's way: `schedule/` cuts a product into steps and times
them, `pipeline/` runs the steps on matrices in host memory, `transfer/` moves their bytes, and
`gemm/` launches kernels on matrices on the GPU. `timing/` measures all of these.

`device` describes the GPUs, `readings` tells their clocks and memory at this moment, `events` waits
for them, and `errors` are what is refused or fails. `last_used` is the cache that all of these use.

A kernel is added as one file in `cuda/` and an entry in `catalog`. NVRTC compiles it to a cubin,
which is cached under source, options, architecture and compiler version. What a kernel needs tuned
is in its entry, where planning compares it with others; `native/tuned.py` has the other tuned
numbers.

Takes arrays and numbers; knows no jobs, no machine's rates and no CPU. CuPy is imported inside
functions only, so that `catalog`, `compile`, `device` and `schedule/` work without a GPU.
"""

"""Everything that runs on a GPU: kernels, their compilation and their launches.

`catalog` lists the kernels, `tiling` says how a block divides its work, `compile` makes cubins of
`cuda/`. Then, in the order of a product's way: `gemm/` launches products of matrices on the GPU,
`pipeline/` streams matrices in host memory through it, `transfer/` moves their bytes, and `timing/`
measures all of these. `device` knows the GPUs, `readings` their
clocks and memory at this moment, `events` waits for them, `errors` are what is
refused.

A kernel is added as one file in `cuda/` and an entry in `catalog`. NVRTC compiles it to a cubin,
which is cached under source, options, architecture and compiler version. What a kernel needs tuned
is in its entry, where planning compares it with others; all other tuned numbers are in
`native/tuned.py`.

Takes arrays and numbers; knows no jobs, no machine's rates and no CPU. CuPy is imported inside
functions only, so that `catalog`, `compile` and `device` work on a machine without a GPU.
"""

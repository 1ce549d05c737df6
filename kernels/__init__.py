"""Everything that runs on a GPU: kernels, their compilation and their launches.

`catalog` lists the kernels, each of them a `spec` with its `tiling`; `compile` makes cubins of
`cuda/`. Then, in the order of a product's way: `schedule/` cuts a product into steps and times
them, `pipeline/` runs the steps on matrices in host memory, `transfer/` moves their bytes, and
`gemm/` launches kernels on matrices on the GPU. `timing/` measures all of these.

`device` describes the GPUs, `nvml` has their clocks and memory at this moment, and `errors` has
what is refused or fails. `last_used` is the cache that all of these use.

A kernel is one file in `cuda/` and an entry in `catalog`. NVRTC compiles it to a cubin, which is
cached by source, options, architecture and compiler version. A kernel's tuned numbers are in its
entry, all others in `native/tuned.py`.

Nothing here knows of jobs, of a machine's rates or of the CPU. CuPy is imported inside functions
only, so that `catalog`, `compile`, `device` and `schedule/` work without a GPU.
"""

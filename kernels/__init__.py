"""Everything that runs on a GPU: kernels, their compilation and their launches.

`catalog` lists the kernels, `tiling` says how a block divides its tile, `compile` compiles `cuda/`
to cubins. A product in host memory passes through `pipeline/`, which cuts it into steps,
`transfer/`, which copies bytes, and `gemm/`, which launches products of matrices on the GPU.
`timing/` measures all of these.

Takes arrays and numbers; knows no jobs. CuPy is imported inside functions only, so that `catalog`,
`compile` and `device` work on a machine without a GPU.
"""

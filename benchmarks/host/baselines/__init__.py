"""Ways to multiply matrices in host memory, with one interface (`baseline`).

`executor` is wavetrim's. `libraries`, `streamed_cupy`, `several_cupy` (on several GPUs) and
`cublas_xt` (by `xt_library`) are others'. `lineup` makes those that run here.
"""

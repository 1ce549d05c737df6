"""Ways to multiply matrices in host memory: what each can do (`baseline`), and which there are.

`executor` is this product's; `libraries`, `streamed_cupy` and `cublas_xt` (by `xt_library`) are
others'; `lineup` makes those that run here.
"""

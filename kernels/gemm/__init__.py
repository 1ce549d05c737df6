"""Products of matrices that are resident on a GPU.

`resident` takes a product, described by `operands`, and prepares its launch: `launch` for the tiled
kernels and for the strict fallback, `bulk` for the kernel with Hopper's bulk copies (with `tails`
and `partials` for its stream-K part), `tensor` for float32 from bfloat16 splits (with `splits`),
and `cublas` (with `partitions`, green contexts). `prepared` holds launches ready to enqueue.
"""

"""Products of matrices that are resident on a GPU.

`resident` takes them and chooses a way: `launch` starts the tiled kernels, `bulk` those of Hopper's
copy engine (`tensor_map`, `tails`, `partials`), `tensor` float32 products from bfloat16 splits
(`splits`), `strict` the kernel that takes over where those cannot, `cublas` NVIDIA's
(`partitions`). `operands` says how matrices lie, `prepared` keeps launches that are made ready
once.
"""

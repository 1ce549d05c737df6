"""Products of matrices that are resident on a GPU.

`resident` takes them and chooses a way: `launch` starts the tiled kernels, `bulk` those of Hopper's
copy engine (`tails`, `partials`), `tensor` float32 products from bfloat16 splits
(`splits`), `half` those of 16-bit elements, `cublas` NVIDIA's (`partitions`). `tensor_maps`
describes matrices to the copy engine. `operands` says how matrices lie.

`prepared` makes a launch ready once: function, grid, tensor maps and arguments in memory. To
enqueue it takes one call of the driver's, as a CUDA graph would, but it is not bound to one
product's addresses (docs/notes/launches.md).
"""
